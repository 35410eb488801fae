// What the theme leaves out for people who use a screen reader or no mouse.
document.addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll('[role="heading"]:not([aria-level])')) {
    caption.setAttribute("aria-level", "2");
  }
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  const icons = document.querySelector(".content-icon-container");
  icons?.setAttribute("role", "navigation");
  icons?.setAttribute("aria-label", "This page");
  for (const cover of document.querySelectorAll("label.overlay")) {
    cover.setAttribute("aria-hidden", "true");
  }
  const results = document.getElementById("search-results");
  if (results && !document.querySelector("h1")) {
    const title = document.createElement("h1");
    title.textContent = "Search";
    results.before(title);
  }
  for (const table of document.querySelectorAll("article table.docutils")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
    if (heads.length < 4) continue;
    // styles that make a table a list of cards take its roles away, so they are written out
    const role = (name, selector) => table.querySelectorAll(selector).forEach((node) => node.setAttribute("role", name));
    table.classList.add("carded");
    table.setAttribute("role", "table");
    role("rowgroup", "thead, tbody");
    role("row", "tr");
    role("columnheader", "th");
    role("cell", "td");
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].forEach((cell, number) => { cell.dataset.head = heads[number] || ""; });
    }
  }
  const scrolling = () => {
    for (const box of document.querySelectorAll("article pre, article .table-wrapper")) {
      box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
    }
  };
  scrolling();
  addEventListener("resize", scrolling);
});
