"use strict";
// Light, dark, or as the system has it; the choice is kept where the browser allows it.
(() => {
  const KEY = "srl-theme", ORDER = ["auto", "light", "dark"];
  const SIGNS = { auto: "◐", light: "☀", dark: "☾" };
  const listeners = [];
  let theme = "auto";

  function remembered() {
    try { return localStorage.getItem(KEY); } catch { return null; } // storage may be forbidden
  }

  function apply(next) {
    theme = ORDER.includes(next) ? next : "auto";
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    listeners.forEach((listener) => listener());
  }

  function themeSwitch() {
    const sign = SRL.el("span", { "aria-hidden": "true" }), name = SRL.el("span");
    const button = SRL.el("button", { type: "button", onclick: () => {
      apply(ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length]);
      try { localStorage.setItem(KEY, theme); } catch { /* the choice lasts until the page is left */ }
      show();
    } }, sign, name);
    function show() {
      sign.textContent = SIGNS[theme];
      name.textContent = theme;
      button.setAttribute("aria-label", `Theme: ${theme}. Press for the next.`);
    }
    show();
    return SRL.el("div", { class: "theme" }, button);
  }

  apply(remembered());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => listeners.forEach((listener) => listener()));
  SRL.onTheme = (listener) => listeners.push(listener);
  SRL.themeSwitch = themeSwitch;
})();
