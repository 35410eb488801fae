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
  const scrolling = () => {
    for (const box of document.querySelectorAll("article pre, article .table-wrapper")) {
      box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
    }
  };
  scrolling();
  addEventListener("resize", scrolling);
});
