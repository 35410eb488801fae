"use strict";
// Elements, numbers and tooltips. Texts from outside only ever become text nodes.
globalThis.SRL = (() => {
  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "tip") explains(node, value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  // --- numbers -------------------------------------------------------------------------------

  const MINUS = "\u2212";
  const signed = (x, digits = 0) => {
    const text = Math.abs(x).toFixed(digits);
    return (Number(text) === 0 ? "" : x < 0 ? MINUS : "+") + text;
  };
  const whole = (x) => x.toLocaleString("en-US");
  const counted = (n, one, many) => `${whole(n)} ${n === 1 ? one : many}`;
  const percent = (x, digits = 0) => (x === null ? "–" : (100 * x).toFixed(digits) + "\u202f%");
  const plusMinus = (x, digits = 0) => "±\u2009" + (x === null ? "?" : x.toFixed(digits));

  function short(x) { // four significant digits, without a tail of zeros
    if (x === null || x === undefined) return "–";
    const size = Math.abs(x);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return x.toExponential(1).replace(".0e", "e").replaceAll("-", MINUS);
    return String(Number(x.toPrecision(4))).replace("-", MINUS);
  }

  // --- tooltip: hover, focus or tap an element that explains itself ----------------------------

  const texts = new WeakMap();
  let tip = null, explained = null;

  function explains(node, text) { // text: a string, or a function that is called when it is needed
    if (text === null || text === undefined) return;
    texts.set(node, text);
    node.dataset.tip = "";
  }

  function place() {
    if (!explained) return;
    const box = explained.getBoundingClientRect();
    const left = box.left + box.width / 2 - tip.offsetWidth / 2;
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (above > 4 ? above : box.bottom + 8) + "px";
  }

  function explain(target) {
    if (explained) explained.removeAttribute("aria-describedby");
    explained = target;
    tip.hidden = !target;
    if (!target) return;
    const text = texts.get(target);
    tip.textContent = typeof text === "function" ? text() : text;
    target.setAttribute("aria-describedby", "tip");
    place();
  }

  addEventListener("DOMContentLoaded", () => {
    tip = el("div", { id: "tip", role: "tooltip", hidden: true });
    document.body.append(tip);
    for (const [on, off] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
      document.addEventListener(on, (event) => {
        const target = event.target.closest("[data-tip]");
        if (target) explain(target);
      });
      document.addEventListener(off, () => explain(null));
    }
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") explain(null); });
    document.addEventListener("scroll", place, { capture: true, passive: true });
  });

  // A frame that scrolls sideways; on a phone each row of a plain table in it is a card.
  function scroller(label, ...content) {
    content.filter((node) => node.matches?.("table.plain")).forEach(carded);
    return el("div", { class: "scroll", role: "group", tabindex: "0", "aria-label": label }, ...content);
  }

  function carded(table) { // styles that make a table a list of cards take its roles away, so they are written out
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
    const role = (name, selector) => table.querySelectorAll(selector).forEach((node) => node.setAttribute("role", name));
    table.setAttribute("role", "table");
    table.classList.add("carded");
    role("rowgroup", "thead, tbody");
    role("row", "tr");
    role("columnheader", "thead th");
    role("rowheader", "tbody th");
    role("cell", "td");
    table.querySelectorAll("tbody tr").forEach((row) => [...row.children].forEach((cell, k) => { cell.dataset.head = heads[k] || ""; }));
  }

  // buttons of which one is pressed; options: [value, text] pairs
  function choice(label, options, chosen, onchoose) {
    const buttons = options.map(([value, text]) =>
      el("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => {
        buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(options[k][0] === value)));
        onchoose(value);
      } }, text));
    return el("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
  }

  return { el, svg, signed, whole, counted, percent, plusMinus, short, scroller, choice };
})();
