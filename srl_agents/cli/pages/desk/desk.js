"use strict";

// Shows the oldest question, and sends the reply to it; the text in the box stays while the question does.
const part = (id) => document.getElementById(id);
let shown = null;

function show(question, others) {
  part("form").hidden = !question;
  if (!question) {
    shown = null;
    return;
  }
  const later = others ? `; ${others} more wait` : "";
  const away = question.waited_for ? "" : ", asked by somebody who went away and may come back";
  part("about").textContent = `Question ${question.number}, waits ${question.waits_s} s${away}${later}`;
  if (shown === question.number) return;
  shown = question.number;
  const system = question.chat.filter((message) => message.role === "system");
  part("system").textContent = system.map((message) => message.content).join("\n");
  part("observation").textContent = question.chat[question.chat.length - 1].content;
  part("reply").value = "";
  part("fault").textContent = "";
  part("reply").focus();
}

async function look() {
  try {
    const found = await (await fetch("/waiting")).json();
    const waiting = found.questions;
    document.title = waiting.length ? `(${waiting.length}) SRL desk` : "SRL desk";
    const rest = waiting.length ? "" : "Nobody waits for you. ";
    part("state").textContent = `${rest}${found.answered} answered.`;
    show(waiting[0], waiting.length - 1);
  } catch {
    part("state").textContent = "The desk does not answer; was its command ended?";
    part("form").hidden = true;
  }
}

async function send(event) {
  event.preventDefault();
  const reply = part("reply").value;
  if (!reply.trim()) {
    part("fault").textContent = "Write a move first.";
    return;
  }
  const answer = await fetch("/reply", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ number: shown, reply }),
  });
  if (!answer.ok) part("fault").textContent = (await answer.json()).error.message;
  await look();
}

part("form").addEventListener("submit", send);
part("reply").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) part("form").requestSubmit();
});
look();
setInterval(look, 1000);
