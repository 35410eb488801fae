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

  // --- what one seat sees ----------------------------------------------------------------------

  const CARD_W = 74, CARD_H = 60, GAP = 10;
  const last = (text, pattern) => [...text.matchAll(pattern)].pop() || null;
  const word = (kind, x, y, text) => svg("text", { class: kind, x, y }, text);

  // Rows of cards, each with a name before it: [[name, [[text, kind], ...]], ...]
  function rowsOfCards(rows, label) {
    const nodes = [], left = 120, most = Math.max(...rows.map(([, cards]) => cards.length), 1);
    rows.forEach(([name, cards], i) => {
      const y = i * (CARD_H + GAP);
      nodes.push(word("place first", 0, y + CARD_H / 2, name));
      cards.forEach(([text, kind], j) => {
        const x = left + j * (CARD_W + GAP);
        nodes.push(svg("rect", { class: `face ${kind}`, x: x + 1, y: y + 1, width: CARD_W - 2, height: CARD_H - 2, rx: 7 }));
        text.split("\n").forEach((line, k, all) => nodes.push(word("card-text", x + CARD_W / 2, y + CARD_H / 2 + (k - (all.length - 1) / 2) * 15, line)));
      });
    });
    const [wide, tall] = [left + most * (CARD_W + GAP), rows.length * (CARD_H + GAP) - GAP];
    return svg("svg", { class: "drawn", viewBox: `0 0 ${wide} ${tall}`, width: wide, height: tall, role: "img", "aria-label": label }, ...nodes);
  }

  function poker(text) {
    const now = last(text, /^Hand (\d+) of \d+\. Your card: (\w+)\. In the pot: you (\d+), they (\d+)\. Betting: (.+)\.$/gm);
    const over = now ? null : last(text, /^Hand (\d+): your card (\w+), theirs (\w+|not shown)\. Betting: (.+)\. Your chips: ([+-]\d+)\.$/gm);
    if (!now && !over) return null;
    const theirs = now || over[3] === "not shown" ? ["?", "back"] : [over[3], ""];
    const said = now ? `pot ${now[3]} + ${now[4]}` : `${over[5]} chips`;
    return rowsOfCards([[`hand ${(now || over)[1]}`, [[(now || over)[2], "own"], theirs, [said, "plain-face"]]]],
      `Hand ${(now || over)[1]}: own card ${(now || over)[2]}, the other's ${theirs[0] === "?" ? "hidden" : theirs[0]}; ${now ? `in the pot ${now[3]} and ${now[4]}` : `${over[5]} chips`}`);
  }

  function fields(text) {
    const worth = last(text, /^Field values: ([\d ]+)$/gm);
    if (!worth) return null;
    const values = worth[1].trim().split(" "), round = last(text, /^Round (\d+): you sent ([\d ]+); other sent ([\d ]+); score ([+-]\d+)$/gm);
    const rows = [["field's value", values.map((value) => [value, "plain-face"])]];
    if (round) {
      const [own, other] = [round[2], round[3]].map((numbers) => numbers.trim().split(" ").map(Number));
      rows.push([`you, round ${round[1]}`, own.map((n, k) => [String(n), n > other[k] ? "own" : ""])], ["the other", other.map((n, k) => [String(n), n > own[k] ? "theirs" : ""])]);
    }
    return rowsOfCards(rows, `Fields worth ${values.join(", ")}${round ? `; in round ${round[1]} you sent ${round[2]}, the other ${round[3]}` : ""}`);
  }

  function fireworks(text) {
    const played = last(text, /^Played: (.+)\.$/gm), own = last(text, /Your cards, as far as you know:\n((?:\d+: .+\n)+)/g);
    if (!played || !own) return null;
    const cards = (rows) => rows.trimEnd().split("\n").map((row) => row.replace(/^\d+: /, ""));
    const rows = [["played", played[1].split(", ").map((pile) => [pile.replace(" ", "\n"), "plain-face"])]];
    for (const [, name, hand] of text.matchAll(/^(player_\d+)'s cards.*:\n((?:\d+: .+\n)+)/gm)) rows.push([name, cards(hand).map((card) => [card.replace(/ \(known.*/, "").replace(" ", "\n"), "theirs"])]);
    rows.push(["your cards", cards(own[1]).map((known) => [known.replace("any colour, any rank", "?").replace(", ", "\n").replace("any colour", "?").replace("any rank", "?"), "own"])]);
    return rowsOfCards(rows, rows.map(([name, shown]) => `${name}: ${shown.map(([what]) => what.replace("\n", " ")).join(", ")}`).join("; "));
  }

  function holdem(text) {
    const now = last(text, /^Hand (\d+) of \d+\. .*Your cards: (.+?)\. Table: (.+?)\.$/gm);
    const over = now ? null : last(text, /^Hand (\d+): your cards (.+?)\. Betting: .*Table: (.+?)\. Their cards: (.+?)\./gm);
    if (!now && !over) return null;
    const SUITS = { s: "♠", h: "♥", d: "♦", c: "♣" };
    const cards = (names, kind) => (/^none|^not shown/.test(names) ? [[names, "back"]] : names.split(" ").map((name) => [name.replace(/[shdc]$/, (suit) => SUITS[suit]), kind]));
    const [, hand, own, table] = now || over, theirs = over ? over[4] : "not shown";
    return rowsOfCards([["your cards", cards(own, "own")], ["table", cards(table, "plain-face")], ["their cards", cards(theirs, "theirs")]],
      `Hand ${hand}: own cards ${own}; table ${table}; their cards ${theirs}`);
  }

  function dice(text) {
    const own = last(text, /^Your dice: ([\d ]+)\.$/gm), bids = last(text, /^Bids of this round: (.+)\.$/gm);
    if (!own) return null;
    const said = bids && bids[1] !== "none yet" ? bids[1].split(", ").slice(-5) : [];
    return rowsOfCards([["your dice", own[1].split(" ").map((face) => [face, "own"])], ...(said.length ? [["last bids", said.map((bid) => [bid.replace(": ", "\n").replace(/(\d+) (\d+)$/, "$1 × $2"), "plain-face"])]] : [])],
      `Own dice ${own[1]}; bids of this round: ${bids ? bids[1] : "unknown"}`);
  }

  // The last grid of marks in a text, one mark a cell. shown: mark -> [class, what stands in the cell]; thick: [rows, columns] of a box
  function tiles(text, shown, thick = null) {
    const runs = [[]]; // lines without a blank that follow each other and are equally long
    for (const line of text.split("\n")) {
      const run = runs[runs.length - 1];
      if (/^\S{4,}$/.test(line) && (!run.length || run[0].length === line.length)) run.push(line);
      else if (run.length) runs.push(/^\S{4,}$/.test(line) ? [line] : []);
    }
    const rows = runs.filter((run) => run.length >= 4).pop();
    if (!rows) return null;
    const S = 26, [wide, tall] = [rows[0].length * S, rows.length * S], nodes = [];
    rows.forEach((row, i) => [...row].forEach((mark, j) => {
      const [kind, sign] = shown(mark);
      nodes.push(svg("rect", { class: `tile ${kind}`, x: j * S + 1, y: i * S + 1, width: S - 2, height: S - 2, rx: 3 }));
      if (sign) nodes.push(svg("text", { class: "card-text", x: (j + 0.5) * S, y: (i + 0.5) * S }, sign));
    }));
    if (thick) {
      for (let y = thick[0]; y < rows.length; y += thick[0]) nodes.push(svg("line", { class: "edge", x1: 0, x2: wide, y1: y * S, y2: y * S }));
      for (let x = thick[1]; x < rows[0].length; x += thick[1]) nodes.push(svg("line", { class: "edge", y1: 0, y2: tall, x1: x * S, x2: x * S }));
    }
    return svg("svg", { class: "drawn", viewBox: `0 0 ${wide} ${tall}`, width: wide, height: tall, role: "img", "aria-label": `Grid, rows from the top: ${rows.join(" / ")}` }, ...nodes);
  }

  const maze = (text) => tiles(text, (mark) => (mark === "#" ? ["wall", ""] : mark === "." ? ["", ""] : ["own", mark]));
  const boxes = (text) => tiles(text, (mark) => ({ "#": ["wall", ""], _: ["", ""], o: ["goal", "◎"], "@": ["own", "☺"], "+": ["own goal", "☺"], $: ["theirs", "▣"], "*": ["theirs goal", "▣"] })[mark] || ["", mark]);
  const country = (text) => tiles(text, (mark) => ({ "?": ["wall", ""], "~": ["water", "~"], "^": ["wall", "▲"], "@": ["own", "☺"], "!": ["goal", "!"], ".": ["", ""] })[mark] || ["", mark]);
  const digits = (text) => {
    const box = /each box of (\d) rows and (\d) columns/.exec(text);
    return tiles(text, (mark) => (mark === "." ? ["", ""] : ["", mark]), box ? [Number(box[1]), Number(box[2])] : null);
  };

  function chessboard(text) {
    const found = last(text, /^FEN: ([\w/]+) ([wb])/gm);
    if (!found) return null;
    const S = 34, rows = found[1].split("/").map((row) => row.replace(/\d/g, (n) => ".".repeat(Number(n)))), nodes = [];
    rows.forEach((row, i) => [...row].forEach((piece, j) => {
      nodes.push(svg("rect", { class: `tile ${(i + j) % 2 ? "dark" : "light"}`, x: j * S, y: i * S, width: S, height: S }));
      if (piece !== ".") nodes.push(svg("text", { class: `piece ${piece === piece.toUpperCase() ? "white" : "black"}`, x: (j + 0.5) * S, y: (i + 0.5) * S }, "♚♛♜♝♞♟"["kqrbnp".indexOf(piece.toLowerCase())]));
    }));
    return svg("svg", { class: "drawn", viewBox: `0 0 ${8 * S} ${8 * S}`, width: 8 * S, height: 8 * S, role: "img", "aria-label": `Chess board, ${found[2] === "w" ? "White" : "Black"} to move: ${found[1]}` }, ...nodes);
  }

  const SEEN = { kuhn_poker: poker, blotto: fields, hanabi_mini: fireworks, holdem, liars_dice: dice, plan_path: maze, sokoban: boxes, sudoku: digits, expedition: country, chess: chessboard };

  // envId, what one seat sees -> a picture of it, or null
  SRL.seatFigure = (envId, text) => {
    const drawn = SEEN[envId.replace(/-v\d+$/, "")]?.(text);
    return drawn ? el("figure", { class: "board" }, el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Picture of this view" }, drawn)) : null;
  };

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
