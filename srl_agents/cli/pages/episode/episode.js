"use strict";

const steps = [...document.querySelectorAll(".step")];
const [back, next, at, single] = ["back", "next", "at", "single"].map((id) => document.getElementById(id));
let current = -1; // the head of the page

function show(index, move) {
  current = Math.max(-1, Math.min(steps.length - 1, index));
  steps.forEach((step, i) => {
    step.classList.toggle("current", i === current);
    step.hidden = single.checked && i !== Math.max(0, current);
  });
  reach();
  at.textContent =
    current < 0 ? "start" : current === steps.length - 1 ? "the end" : `step ${current + 1} of ${steps.length - 1}`;
  back.disabled = current < 0;
  next.disabled = current === steps.length - 1;
  if (!move) return;
  if (current < 0) window.scrollTo(0, 0);
  else {
    steps[current].scrollIntoView({ block: "start" });
    steps[current].focus({ preventScroll: true });
  }
}

/** Texts that scroll can be reached by Tab; short ones are no stops on the way. */
function reach() {
  for (const text of document.querySelectorAll("pre")) {
    if (text.scrollHeight > text.clientHeight + 1) text.tabIndex = 0;
    else text.removeAttribute("tabindex");
  }
}

document.addEventListener("toggle", reach, true);
window.addEventListener("resize", reach);

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const to = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: -1, End: steps.length - 1 }[event.key];
  if (to === undefined) return;
  if (event.target.closest(".scroll")) return; // a wide table scrolls by these keys
  event.preventDefault();
  show(to, true);
});

back.addEventListener("click", () => show(current - 1, true));
next.addEventListener("click", () => show(current + 1, true));
single.addEventListener("change", () => show(current, true));

const linked = steps.findIndex((step) => `#${step.id}` === location.hash);
document.querySelector(".bar").hidden = false;
show(linked, linked >= 0);
