"use strict";

// Shows the oldest question, and sends the reply to it. What is typed is kept in the browser until it is sent,
// so it is there again after a reload, in another tab, and when a client asks the same once more.
const part = (id) => document.getElementById(id);
const DRAFT = "srl-desk-draft ";
const MOST_DRAFTS = 50;
const SOON_MS = 150; // the next turn is often there by then
let shown = null; // number of the question
let draft = null; // key of its draft
const sent = new Set(); // numbers that were replied to: an answer of the desk from before does not show them again

/** Key of the draft for a chat: a short hash of its texts (FNV-1a). */
function keyOf(chat) {
  let hash = 0x811c9dc5;
  for (const code of chat.map((message) => message.content).join("\n")) hash = Math.imul(hash ^ code.codePointAt(0), 0x01000193);
  return DRAFT + (hash >>> 0).toString(16);
}

function minutes(seconds) {
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
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
  const limit = question.left_s === null ? "" : `, ${paused ? "the clock stands at" : "for another"} ${minutes(question.left_s)}`;
  part("about").textContent = `Question ${question.number}, waits ${minutes(question.waits_s)}${limit}${away}${later}`;
  if (shown === question.number) return;
  shown = question.number;
  part("match").textContent = question.match ?? "";
  const system = question.chat.filter((message) => message.role === "system");
  part("system").textContent = system.map((message) => message.content).join("\n");
  part("observation").textContent = question.chat[question.chat.length - 1].content;
  draft = keyOf(question.chat);
  part("reply").value = localStorage.getItem(draft) ?? "";
  part("fault").textContent = "";
  settle(part("resign"));
  const text = question.chat[question.chat.length - 1].content;
  const clicks = window.Controls.of(text, question.legal, (body) => submit(body));
  part("controls").replaceChildren(...(clicks ? [clicks] : []));
  const first = clicks?.querySelector("button:enabled, input");
  (part("reply").value || !first ? part("reply") : first).focus();
}

let asked = 0, seen = 0, news = "", paused = false;

async function look() {
  const own = ++asked;
  try {
    const found = await (await fetch("/waiting")).json();
    if (own < seen) return;  // a later look was answered before
    seen = own;
    news = found.news || news;
    const waiting = found.questions.filter((question) => !sent.has(question.number));
    const all = waiting.length + found.more;
    document.title = all ? `(${all}) SRL desk` : "SRL desk";
    paused = found.paused;
    const idle = waiting.length ? "" : "Nobody waits for you. ";
    const rest = paused ? "Paused: your games wait until you go on. " : idle;
    part("state").textContent = `${news ? `${news} ` : ""}${rest}${found.answered} answered.`;
    part("pause").textContent = paused ? "Go on" : "Pause";
    show(waiting[0], waiting.length - 1 + found.more);
  } catch {
    part("state").textContent = `${news ? `${news} ` : ""}The desk does not answer; was its command ended?`;
    part("form").hidden = true;
  }
}

function send(event) {
  event.preventDefault();
  return submit(part("reply").value);
}

async function submit(reply) {
  if (!reply.trim()) {
    part("fault").textContent = "Write a move first.";
    return;
  }
  return post("/reply", { reply });
}

async function tell(path, body = {}) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
}

/** Pause, or go on. */
async function pause() {
  try {
    await tell(paused ? "/go_on" : "/pause");
  } catch (error) {
    part("fault").textContent = error.message;
  }
  await look();
}

/** Send what the person decided about the question that is shown. */
async function post(path, body = {}) {
  const [number, key] = [shown, draft];
  sent.add(number);
  try {
    await tell(path, { number, ...body });
    localStorage.removeItem(key);
  } catch (error) {
    sent.delete(number);
    part("fault").textContent = error.message;
  }
  await look();
  setTimeout(look, SOON_MS);
}

/** A button that ends something asks once more: the first click changes its words, the second is meant. */
function settle(button) {
  if (!button.dataset.asked) return false;
  button.textContent = button.dataset.asked;
  delete button.dataset.asked;
  return true;
}

function resign() {
  const button = part("resign");
  if (settle(button)) return post("/resign");
  button.dataset.asked = button.textContent;
  button.textContent = "Resign this game?";
}

part("form").addEventListener("submit", send);
part("resign").addEventListener("click", resign);
part("pause").addEventListener("click", pause);
part("reply").addEventListener("input", keep);
part("reply").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) part("form").requestSubmit();
});
look();
setInterval(look, 1000);
