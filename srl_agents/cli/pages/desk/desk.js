"use strict";

// Shows the oldest question, and sends the reply to it. What is typed is kept in the browser until it is sent,
// so it is there again after a reload, in another tab, and when a client asks the same once more.
const part = (id) => document.getElementById(id);
const DRAFT = "srl-desk-draft ";
const MOST_DRAFTS = 50;
let shown = null; // number of the question
let draft = null; // key of its draft

/** Key of the draft for a chat: a short hash of its texts (FNV-1a). */
function keyOf(chat) {
  let hash = 0x811c9dc5;
  for (const code of chat.map((message) => message.content).join("\n")) hash = Math.imul(hash ^ code.codePointAt(0), 0x01000193);
  return DRAFT + (hash >>> 0).toString(16);
}

function keep() {
  const others = Object.keys(localStorage).filter((key) => key.startsWith(DRAFT) && key !== draft);
  if (others.length > MOST_DRAFTS) others.forEach((key) => localStorage.removeItem(key));
  if (part("reply").value) localStorage.setItem(draft, part("reply").value);
  else localStorage.removeItem(draft);
}

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
  draft = keyOf(question.chat);
  part("reply").value = localStorage.getItem(draft) ?? "";
  part("fault").textContent = "";
  part("reply").focus();
}

async function look() {
  try {
    const found = await (await fetch("/waiting")).json();
    const waiting = found.questions;
    const all = waiting.length + found.more;
    document.title = all ? `(${all}) SRL desk` : "SRL desk";
    const rest = waiting.length ? "" : "Nobody waits for you. ";
    part("state").textContent = `${rest}${found.answered} answered.`;
    show(waiting[0], waiting.length - 1 + found.more);
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
  if (answer.ok) localStorage.removeItem(draft);
  else part("fault").textContent = (await answer.json()).error.message;
  await look();
}

part("form").addEventListener("submit", send);
part("reply").addEventListener("input", keep);
part("reply").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) part("form").requestSubmit();
});
look();
setInterval(look, 1000);
