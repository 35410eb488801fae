"use strict";
// A table that sorts by its heads and keeps only the rows in view in the document, however many there are.
(() => {
  const { el } = SRL;
  const MARGIN_ROWS = 8; // rows kept above and below what is seen

  // column: { label, help, value(row) to sort by, first: 1 or -1, cell(row), rem, narrow: rem on a phone, number, head }
  // The head column takes all room that the others leave. whole: no box of its own, every row in the document, of any height,
  // until a button is pressed the first `most`. cards: on a phone each row is a card whose cells name their column.
  SRL.grid = ({ label, caption, columns, rows, sorted = 0, direction = null, tall = 38, whole = false, cards = false, most = Infinity, rowClass = () => null }) => {
    const body = el("tbody");
    const heads = columns.map((column) => el("th", { scope: "col", class: kind(column) },
      column.value ? el("button", { type: "button", tip: column.help, onclick: () => sortBy(column) }, column.label) : el("span", { tip: column.help }, column.label)));
    const table = el("table", { class: "grid", role: "table" }, el("caption", {}, caption),
      el("colgroup", {}, ...columns.map((column) => sized(el("col", { class: kind(column) }), column))),
      el("thead", {}, el("tr", { "aria-rowindex": 1 }, ...heads)), body);
    const node = el("div", { class: `scroll grid-scroll${whole ? " whole" : ""}${cards ? " cards" : ""}`, role: "group", tabindex: "0", "aria-label": label }, table);
    const sum = (width, head) => columns.filter((column) => Boolean(column.head) === head).reduce((total, column) => total + width(column), 0) + "rem";
    table.style.setProperty("--head-wide", sum((column) => column.rem, true));
    table.style.setProperty("--rest-wide", sum((column) => column.rem, false));
    table.style.setProperty("--rest-narrow", sum((column) => column.narrow ?? column.rem, false));
    node.style.setProperty("--tall", tall + "px");
    const above = spacer(), below = spacer(), drawn = new Map();
    let order = columns[sorted], way = direction ?? order.first, kept = rows, keep = () => true;
    const more = el("button", { type: "button", class: "more-rows", hidden: true, onclick: () => { most = Infinity; show(); } });

    function sized(col, { head, rem, narrow }) {
      if (head) return col;
      col.style.setProperty("--wide", rem + "rem");
      col.style.setProperty("--narrow", (narrow ?? rem) + "rem");
      return col;
    }

    function kind(column) {
      return [column.number ? "number" : "", column.head ? "head" : "", column.wide ? "wide" : ""].join(" ").trim() || null;
    }

    function spacer() { // as high as the rows that are left out
      return el("tr", { class: "spacer", "aria-hidden": "true" }, el("td", { colspan: columns.length }));
    }

    function draw(k) {
      const row = kept[k];
      return el("tr", { "aria-rowindex": k + 2, class: rowClass(row), role: "row" }, ...columns.map((column) => {
        const content = column.cell(row);
        return el(column.head ? "th" : "td", { class: kind(column), scope: column.head ? "row" : null, role: column.head ? "rowheader" : "cell", "data-label": cards ? column.label : null }, ...(Array.isArray(content) ? content : [content]));
      }));
    }

    function view() {
      if (whole) return void above.after(...kept.slice(0, most).map((_, k) => draw(k)));
      const first = Math.max(0, Math.floor(node.scrollTop / tall) - MARGIN_ROWS);
      const last = Math.min(kept.length, Math.ceil((node.scrollTop + (node.clientHeight || 800)) / tall) + MARGIN_ROWS);
      for (const [k, tr] of drawn) {
        if (k < first || k >= last) {
          tr.remove();
          drawn.delete(k);
        }
      }
      let next = below; // from the end, so that each row finds its follower
      for (let k = last - 1; k >= first; k--) {
        if (!drawn.has(k)) {
          drawn.set(k, draw(k));
          next.before(drawn.get(k));
        }
        next = drawn.get(k);
      }
      above.firstChild.style.height = first * tall + "px";
      below.firstChild.style.height = (kept.length - last) * tall + "px";
    }

    function compare(one, other) {
      const [mine, theirs] = [order.value(one), order.value(other)];
      if (mine === null || theirs === null) return (mine === null) - (theirs === null); // unknown last
      return way * (mine < theirs ? -1 : mine > theirs ? 1 : 0);
    }

    function show() {
      kept = rows.filter(keep).sort(compare);
      drawn.clear();
      body.replaceChildren(above, below);
      if (!whole) below.firstChild.style.height = kept.length * tall + "px"; // gives the box its height before it is measured
      table.setAttribute("aria-rowcount", kept.length + 1);
      node.scrollTop = 0;
      columns.forEach((column, k) => {
        if (column === order) heads[k].setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
        else heads[k].removeAttribute("aria-sort");
      });
      view();
      more.hidden = kept.length <= most;
      more.textContent = `Show all ${kept.length}`;
      return kept.length;
    }

    function sortBy(column) {
      way = column === order ? -way : column.first;
      order = column;
      show();
    }

    if (!whole) {
      node.addEventListener("scroll", () => requestAnimationFrame(view), { passive: true });
      new ResizeObserver(view).observe(node);
    }
    show();
    return { node, more, filter(test) { keep = test; return show(); } };
  };
})();
