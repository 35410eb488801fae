"use strict";
// Boards as pictures, from the text that a spectator of the game sees. A game without a picture shows the text.
(() => {
  const { el, svg } = SRL;
  const CELL = 44, R = 17;

  function grid(text, before) {
    const found = /^((?:[.XO]+\n)+)\d+\n/.exec(text);
    if (!found) return null;
    const rows = found[1].trimEnd().split("\n"), old = (/^((?:[.XO]+\n)+)/.exec(before || "")?.[1] || "").split("\n");
    const [wide, tall] = [rows[0].length * CELL, rows.length * CELL], nodes = [];
    rows.forEach((row, i) => [...row].forEach((mark, j) => {
      const [cx, cy, fresh] = [(j + 0.5) * CELL, (i + 0.5) * CELL, before && mark !== "." && old[i]?.[j] === "."];
      const kind = mark === "." ? "hole" : `disc c${mark === "X" ? 0 : 1}`;
      nodes.push(svg("circle", { class: fresh ? `${kind} fresh` : kind, cx, cy, r: R }));
      if (mark !== ".") nodes.push(svg("text", { class: "mark", x: cx, y: cy }, mark));
    }));
    rows[0].split("").forEach((_, j) => nodes.push(svg("text", { class: "place", x: (j + 0.5) * CELL, y: tall + 14 }, String(j + 1))));
    return svg("svg", { class: "drawn", viewBox: `0 0 ${wide} ${tall + 24}`, width: wide, height: tall + 24, role: "img", "aria-label": `Board, rows from the top: ${rows.join(" / ")}` },
      svg("rect", { class: "field", width: wide, height: tall, rx: 8 }), ...nodes);
  }

  function heaps(text, before) {
    const sizes = (from) => [...(from || "").matchAll(/^Heap \d+: o* \((\d+)\)$/gm)].map((line) => Number(line[1]));
    const [now, old] = [sizes(text), sizes(before)];
    if (!now.length) return null;
    const most = Math.max(...now, ...old, 1), nodes = [];
    now.forEach((size, i) => {
      nodes.push(svg("text", { class: "place first", x: 4, y: (i + 0.5) * CELL }, `${i + 1}`));
      for (let k = 0; k < Math.max(size, old[i] || 0); k++) nodes.push(svg("circle", { class: k < size ? "disc" : "hole", cx: 48 + k * CELL, cy: (i + 0.5) * CELL, r: R }));
    });
    const [wide, tall] = [30 + most * CELL, now.length * CELL];
    return svg("svg", { class: "drawn", viewBox: `0 0 ${wide} ${tall}`, width: wide, height: tall, role: "img", "aria-label": `Heaps: ${now.join(", ")}` }, ...nodes);
  }

  const DRAWN = { connect_four: grid, nim: heaps };
  const LEGENDS = { connect_four: "The ring is the new piece.", nim: "An empty ring was taken in this step." };

  // envId, what a spectator sees, what it saw a step earlier, whose board, when -> a captioned figure
  SRL.boardFigure = (envId, text, before, seats, when) => {
    const game = envId.replace(/-v\d+$/, ""), drawn = DRAWN[game]?.(text, before);
    const marks = drawn && game === "connect_four" ? seats.slice(0, 2).map((name, seat) => el("span", { class: `c${seat} seat-name` }, `${"XO"[seat]}: seat ${seat}, ${name}`)) : [];
    return el("figure", { class: "board" }, drawn || el("pre", { tabindex: "0" }, text),
      el("figcaption", {}, el("span", {}, `The game ${when}, as a spectator sees it: not a seat's view.${drawn && before ? ` ${LEGENDS[game]}` : ""}`), ...marks));
  };
})();
