"use strict";
// Draws the page from the JSON beside it. Names are untrusted: they only ever become text nodes.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const FEW_GAMES = 10;
  const MINUS = "\u2212";

  // --- building elements ---------------------------------------------------------------------

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  }

  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  // --- numbers -------------------------------------------------------------------------------

  const signed = (x, digits = 0) => {
    const text = Math.abs(x).toFixed(digits);
    return (Number(text) === 0 ? "" : x < 0 ? MINUS : "+") + text;
  };
  const whole = (x) => x.toLocaleString("en-US");
  const games = (n) => `${whole(n)} ${n === 1 ? "game" : "games"}`;
  const percent = (x, digits = 0) => (x === null ? "–" : (100 * x).toFixed(digits) + "\u202f%");
  const width = (x) => (x === null ? "±\u2009?" : "±\u2009" + Math.round(x));
  const ranks = (row) => (row.best_rank === row.worst_rank ? String(row.best_rank) : `${row.best_rank}–${row.worst_rank}`);

  // --- tooltip: hover, focus or tap an element that carries `data-tip` -------------------------

  const tip = document.getElementById("tip");
  let explained = null;

  function placeTip() {
    if (!explained) return;
    const box = explained.getBoundingClientRect();
    const left = box.left + box.width / 2 - tip.offsetWidth / 2;
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (above > 4 ? above : box.bottom + 8) + "px";
  }

  function explain(target) {
    explained = target;
    tip.hidden = !target;
    if (target) tip.textContent = target.dataset.tip;
    placeTip();
  }

  for (const [on, off] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
    document.addEventListener(on, (event) => {
      const target = event.target.closest("[data-tip]");
      if (target) explain(target);
    });
    document.addEventListener(off, () => explain(null));
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") explain(null); });
  document.addEventListener("scroll", placeTip, { capture: true, passive: true });

  // --- the table -----------------------------------------------------------------------------

  function intervalBar(row, low, high) {
    const wide = 160, tall = 18;
    const place = (elo) => 2 + (wide - 4) * (Math.max(low, Math.min(high, elo)) - low) / (high - low || 1);
    const half = row.half_width === null ? Infinity : row.half_width;
    const upright = (kind, elo, height) =>
      svg("line", { class: kind, x1: place(elo), x2: place(elo), y1: (tall - height) / 2, y2: (tall + height) / 2 });
    const inside = (elo) => elo >= low && elo <= high;
    return svg("svg", { class: "bar", viewBox: `0 0 ${wide} ${tall}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      upright("zero", 0, tall),
      svg("line", { class: "range", x1: place(row.elo - half), x2: place(row.elo + half), y1: tall / 2, y2: tall / 2 }),
      ...[row.elo - half, row.elo + half].filter(inside).map((end) => upright("end", end, 6)),
      inside(row.elo) ? upright("point", row.elo, 12) : null);
  }

  // What the bars span. A newcomer's wide interval is cut off rather than flattening all others.
  function barBounds(agents) {
    const firm = agents.filter((row) => !row.provisional.length);
    const shown = (firm.length > 1 ? firm : agents).flatMap((row) => [row.elo - (row.half_width || 0), row.elo + (row.half_width || 0)]);
    return [Math.min(0, ...shown), Math.max(0, ...shown)];
  }

  function agentCell(row) {
    const doubts = row.provisional.join("; ");
    return el("th", { scope: "row", class: "agent" }, el("div", { class: "who" },
      el("span", { class: "name", title: row.agent }, row.agent),
      row.role === "frozen" || row.role === "main" ? null : el("span", { class: "tag" }, row.role),
      doubts ? el("span", { class: "tag provisional", tabindex: "0", "data-tip": `Provisional: ${doubts}.` }, "provisional") : null));
  }

  const scroller = (label, table) => el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label }, table);

  const numberCell = (text, attributes) => el("td", { class: "number", ...attributes }, text);

  // value: what sorting compares; first: direction of the first click (1 up, -1 down)
  function columns(low, high) {
    return [
      { label: "Rank", value: (r) => r.best_rank * 1e6 + r.worst_rank, first: 1, number: true,
        help: "The best and the worst place that the intervals leave open.",
        cell: (r) => numberCell(ranks(r)) },
      { label: "Agent", value: (r) => r.agent.toLowerCase(), first: 1, cell: agentCell, class: "agent" },
      { label: "Rating", value: (r) => r.elo, first: -1, number: true,
        help: "Elo with half of its 95 % interval.",
        cell: (r) => el("td", { class: "number rating" }, el("b", {}, signed(r.elo)), " ", el("span", { class: "quiet" }, width(r.half_width))) },
      { label: "95 % interval", value: (r) => (r.half_width === null ? Infinity : r.half_width), first: 1,
        help: "Narrowest first when sorted.", cell: (r) => el("td", {}, intervalBar(r, low, high)) },
      { label: "Score", value: (r) => r.field_score, first: -1, number: true,
        help: "Points per game against the field, each opponent counted once. A draw is half a point.",
        cell: (r) => numberCell(percent(r.field_score, 1)) },
      { label: "Games", value: (r) => r.games, first: -1, number: true,
        cell: (r) => numberCell(whole(r.games), { "data-tip": `${games(r.games)}, ${whole(r.clusters)} different seeds` }) },
      { label: "W / D / L", value: (r) => r.wins / (r.games || 1), first: -1, number: true,
        help: "Games won, drawn and lost.",
        cell: (r) => numberCell(`${whole(r.wins)} / ${whole(r.draws)} / ${whole(r.losses)}`) },
      { label: "Invalid", value: (r) => r.invalid_share, first: -1, number: true,
        help: "Share of its replies that were malformed or illegal.",
        cell: (r) => numberCell(percent(r.invalid_share, 1), { class: r.invalid_share > 0.05 ? "number bad" : "number" }) },
      { label: "Forfeits", value: (r) => r.forfeit_share, first: -1, number: true,
        help: "Share of its matches that it lost by forfeit.",
        cell: (r) => numberCell(percent(r.forfeit_share, 1), { class: r.forfeit_share > 0.05 ? "number bad" : "number" }) },
    ];
  }

  function ranking(board) {
    const shape = columns(...barBounds(board.agents));
    const body = el("tbody");
    const count = el("output", { "aria-live": "polite" });
    const filter = el("input", { type: "search", placeholder: "Filter agents", "aria-label": "Filter agents", oninput: show });
    const firm = el("input", { type: "checkbox", onchange: show });
    const rows = board.agents.map((row) => ({
      row, text: `${row.agent} ${row.lineage} ${row.role}`.toLowerCase(),
      node: el("tr", { class: row.provisional.length ? "unsure" : null }, ...shape.map((column) => column.cell(row))),
    }));
    const heads = shape.map((column) => el("th", { scope: "col", class: [column.number ? "number" : "", column.class || ""].join(" ").trim() || null },
      el("button", { type: "button", "data-tip": column.help, onclick: () => sortBy(column) }, column.label)));
    let sorted = shape[2], direction = -1;

    function sortBy(column) {
      direction = column === sorted ? -direction : column.first;
      sorted = column;
      show();
    }

    function show() {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const kept = rows.filter(({ row, text }) => words.every((word) => text.includes(word)) && !(firm.checked && row.provisional.length));
      kept.sort((one, other) => compare(sorted.value(one.row), sorted.value(other.row)) || one.row.best_rank - other.row.best_rank);
      body.replaceChildren(...kept.map(({ node }) => node));
      shape.forEach((column, k) => {
        if (column === sorted) heads[k].setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
        else heads[k].removeAttribute("aria-sort");
      });
      count.textContent = kept.length === rows.length ? `${whole(rows.length)} agents` : `${whole(kept.length)} of ${whole(rows.length)} agents`;
    }

    function compare(one, other) {
      if (one === null || other === null) return (one === null) - (other === null); // unknown last
      return direction * (one < other ? -1 : one > other ? 1 : 0);
    }

    show();
    return el("section", { class: "card" },
      el("div", { class: "tools" }, filter, el("label", {}, firm, "hide provisional"), count),
      scroller("Ranking", el("table", { class: "ranking" },
        el("thead", {}, el("tr", {}, ...heads)), body)),
      reading(board));
  }

  function reading(board) {
    const zero = board.anchors.length ? `the mean of ${board.anchors.join(", ")}` : "the mean of all agents";
    return el("details", {}, el("summary", {}, "How to read this"), el("ul", {},
      el("li", {}, `0 Elo is ${zero}. 100 Elo more means about 64 % of the points, 200 Elo 76 %, 400 Elo 91 %.`),
      el("li", {}, "Ratings are Bradley-Terry with ties (Davidson) and a weak prior; all games count alike, the order of games does not matter."),
      el("li", {}, "Intervals are 95 % and count seeds, not games: games on one seed share their luck. Two agents can be resolved although their single intervals overlap."),
      el("li", {}, "Provisional: the interval is wider than ±75 Elo, there are fewer than 30 seeds, or no chain of wins leads both to the agent and from it."),
      el("li", {}, `Only evaluation matches count. Left out: ${whole(board.not_rated)} of training, of selection or of other schedules, and ${whole(board.void)} void ones, where our side failed.`)));
  }

  // --- the matrix ----------------------------------------------------------------------------

  function matrixCell(matrix, i, j) {
    if (i === j) return el("td", { class: "self" }, "·");
    const met = matrix.games[i][j], score = matrix.score[i][j];
    const names = `${matrix.agents[i]} against ${matrix.agents[j]}`;
    const tipText = met
      ? `${names}\n${percent(score, 1)} of the points (95 %: ${percent(matrix.low[i][j])} to ${percent(matrix.high[i][j])})\n${games(met)}${met < FEW_GAMES ? ", too few to say much" : ""}`
      : `${names}\nnever met`;
    const kind = !met ? "none" : met < FEW_GAMES ? "few" : score >= 0.5 ? "more" : "less";
    const cell = el("td", { class: kind, tabindex: "-1", "data-tip": tipText, "aria-label": tipText.replaceAll("\n", ", ") },
      met ? String(Math.round(100 * score)) : "");
    if (met) cell.style.setProperty("--weight", Math.round(160 * Math.abs(score - 0.5)) + "%");
    return cell;
  }

  function winMatrix(board) {
    const matrix = board.matrix, n = matrix.agents.length;
    const cells = matrix.agents.map((_, i) => matrix.agents.map((_, j) => matrixCell(matrix, i, j)));
    const body = el("tbody", { onkeydown: move }, ...cells.map((row, i) =>
      el("tr", {}, el("th", { scope: "row", title: matrix.agents[i] }, matrix.agents[i]), ...row)));
    if (n > 1) cells[0][1].tabIndex = 0;

    function move(event) { // arrow keys walk through the cells; the diagonal is skipped
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      const i = cells.findIndex((row) => row.includes(event.target));
      if (!step || i < 0) return;
      event.preventDefault();
      let [row, column] = [i + step[0], cells[i].indexOf(event.target) + step[1]];
      if (row === column) [row, column] = [row + step[0], column + step[1]];
      const next = cells[row] && cells[row][column];
      if (!next) return;
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }

    const shown = n < board.agents.length ? ` The best ${n} of ${whole(board.agents.length)} agents.` : "";
    return el("section", { class: "card" }, el("h3", {}, "Who beats whom"),
      el("p", { class: "lead" }, `Percent of the points that the row took from the column.${shown}`),
      scroller("Win matrix", el("table", { class: "matrix" },
        el("thead", {}, el("tr", {}, el("td", { class: "none" }), ...matrix.agents.map((name) => el("th", { scope: "col", title: name }, el("span", {}, name))))),
        body)),
      el("div", { class: "legend" },
        el("span", {}, el("i", { class: "more" }), "row ahead"), el("span", {}, el("i", { class: "less" }), "column ahead"),
        el("span", {}, el("i", { class: "few" }), `fewer than ${FEW_GAMES} games`)));
  }

  // --- learning curves -----------------------------------------------------------------------

  function ticks(low, high, about) {
    const raw = (high - low) / about || 1, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw);
    const out = [];
    for (let x = Math.ceil(low / step) * step; x <= high + step * 1e-6; x += step) out.push(Math.round(x * 1e6) / 1e6);
    return out;
  }

  function drawCurves(board, wide) {
    const roomy = wide > 560; // then the anchors' names stand beside the plot, else inside it
    const tall = 280, left = 46, right = roomy ? 110 : 12, top = 14, bottom = 40;
    const points = board.curves.flatMap((curve) => curve.points);
    const references = board.agents.filter((r) => r.role === "anchor");
    const ends = [...points.flatMap((p) => [p.elo - (p.half_width || 0), p.elo + (p.half_width || 0)]), ...references.map((r) => r.elo)];
    const low = Math.min(...ends), high = Math.max(...ends), last = Math.max(1, ...points.map((p) => p.step));
    const x = (step) => left + (wide - left - right) * step / last;
    const y = (elo) => tall - bottom - (tall - top - bottom) * (elo - low) / (high - low || 1);
    const drawing = svg("svg", { viewBox: `0 0 ${wide} ${tall}`, height: tall, role: "group", "aria-label": "Rating by training step" });
    for (const elo of ticks(low, high, 5)) {
      drawing.append(svg("line", { class: "grid", x1: left, x2: wide - right, y1: y(elo), y2: y(elo) }),
        svg("text", { x: left - 8, y: y(elo) + 4, "text-anchor": "end" }, signed(elo)));
    }
    for (const step of ticks(0, last, Math.max(2, wide / 80)).filter(Number.isInteger)) {
      drawing.append(svg("text", { x: x(step), y: tall - bottom + 18, "text-anchor": "middle" }, whole(step)));
    }
    drawing.append(svg("text", { x: (left + wide - right) / 2, y: tall - 4, "text-anchor": "middle" }, "training step"));
    const labels = [];
    let lowest = Infinity; // labels keep their distance from each other
    for (const anchor of [...references].sort((one, other) => one.elo - other.elo)) {
      const height = y(anchor.elo), baseline = Math.min(height + (roomy ? 4 : -4), lowest - 13);
      lowest = baseline;
      drawing.append(svg("line", { class: "anchor", x1: left, x2: wide - right, y1: height, y2: height }));
      labels.push(svg("text", { class: "label", x: roomy ? wide - right + 8 : wide - right, y: baseline, "text-anchor": roomy ? "start" : "end" },
        anchor.agent.length > 16 ? anchor.agent.slice(0, 15) + "…" : anchor.agent));
    }
    drawing.append(...labels);
    board.curves.forEach((curve, k) => drawing.append(drawCurve(curve, k, x, y)));
    return drawing;
  }

  function drawCurve(curve, k, x, y) {
    const at = (p, shift) => `${x(p.step).toFixed(1)},${y(p.elo + shift * (p.half_width || 0)).toFixed(1)}`;
    const group = svg("g", { class: `c${k % 6}` },
      svg("polygon", { class: "band", points: [...curve.points.map((p) => at(p, 1)), ...curve.points.map((p) => at(p, -1)).reverse()].join(" ") }),
      svg("polyline", { class: "line", points: curve.points.map((p) => at(p, 0)).join(" ") }));
    for (const p of curve.points) {
      group.append(svg("circle", { class: "dot", cx: x(p.step), cy: y(p.elo), r: 5, tabindex: "0", role: "img",
        "data-tip": `${p.agent}\nstep ${whole(p.step)}: ${signed(p.elo)} ${width(p.half_width)} Elo`,
        "aria-label": `${p.agent}, step ${p.step}, ${Math.round(p.elo)} Elo` }));
    }
    return group;
  }

  function learning(board) {
    return el("section", { class: "card" }, el("h3", {}, "Learning"),
      ...(board.curves.length ? curves(board) : []),
      board.versus_start.length ? versusStart(board) : null);
  }

  function curves(board) {
    const frame = el("div", { class: "curve" });
    let drawnAt = 0;
    new ResizeObserver(() => {
      const wide = Math.round(frame.clientWidth);
      if (wide > 0 && wide !== drawnAt) frame.replaceChildren(drawCurves(board, drawnAt = wide));
    }).observe(frame);
    return [
      el("p", { class: "lead" }, "Rating of each version by training step over all evaluation matches, with its 95 % interval. Dashed: anchors."),
      frame,
      el("div", { class: "legend keys" }, ...board.curves.map((curve, k) =>
        el("span", { class: `c${k % 6}` }, el("i"), el("span", {}, curve.lineage)))),
    ];
  }

  function versusStart(board) {
    const head = ["Version", "Difference", "Verdict", "Start", "Games", "Seeds"];
    const table = scroller("Against the own start", el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...board.versus_start.map((r) => el("tr", {},
        el("td", { class: "clip", title: r.agent }, r.agent),
        el("td", {}, `${signed(r.difference, 2)} ±\u2009${r.half_width === null ? "?" : r.half_width.toFixed(2)}`),
        el("td", { class: `verdict-${r.verdict.split(" ")[0]}` }, r.verdict),
        el("td", { class: "clip", title: r.start }, r.start),
        el("td", {}, whole(r.games)), el("td", {}, whole(r.clusters)))))));
    return el("div", { class: "start" },
      el("p", { class: "lead" }, "Points per game of a version minus those of its start, from the games between the two alone."), table);
  }

  // --- the page ------------------------------------------------------------------------------

  const fact = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));

  function drawBoard(board, k) {
    const section = el("section", { class: "board", id: `board-${k}`, "aria-label": board.env_id },
      el("h2", {}, board.env_id),
      board.options ? el("p", { class: "options" }, "options ", el("code", {}, board.options)) : null);
    if (!board.agents.length) {
      section.append(el("div", { class: "card empty" },
        `No evaluation matches yet. Matches of training and selection never feed a rating (${whole(board.not_rated)} left out).`));
      return section;
    }
    section.append(el("dl", { class: "facts" },
      fact("matches", whole(board.matches)), fact("seeds", whole(board.clusters)), fact("agents", whole(board.agents.length)),
      board.schedule ? fact("schedule", board.schedule) : null,
      board.void ? fact("void", whole(board.void)) : null));
    if (board.resolution !== null) {
      section.append(el("p", { class: "resolution" }, `Differences below about ${Math.ceil(board.resolution)} Elo are not resolved.`));
    }
    section.append(ranking(board));
    if (board.curves.length || board.versus_start.length) section.append(learning(board));
    section.append(winMatrix(board));
    return section;
  }

  function select(k, focus) {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === k));
      tab.tabIndex = i === k ? 0 : -1;
      sections[i].hidden = i !== k;
    });
    if (focus) tabs[k].focus();
  }

  function go(k, focus) {
    select(k, focus);
    history.replaceState(null, "", "#" + encodeURIComponent(names[k]));
  }

  const sections = data.boards.map(drawBoard);
  const names = data.boards.map((board) => [board.env_id, board.options].filter(Boolean).join(" "));
  const tabs = names.map((name, k) => el("button", { type: "button", role: "tab", "aria-controls": `board-${k}`, onclick: () => go(k, false) }, name));
  const bar = document.getElementById("tabs");
  if (tabs.length > 1) {
    bar.setAttribute("role", "tablist");
    bar.append(...tabs);
    sections.forEach((section) => section.setAttribute("role", "tabpanel"));
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) go((tabs.indexOf(event.target) + step + tabs.length) % tabs.length, true);
    });
  }
  document.getElementById("boards").replaceChildren(...(sections.length ? sections : [el("div", { class: "card empty" }, "The store holds no match yet.")]));
  document.getElementById("command").textContent = data.command;
  document.getElementById("digest").textContent = data.store_sha256.slice(0, 16);
  if (sections.length) select(Math.max(0, names.findIndex((name) => location.hash === "#" + encodeURIComponent(name))), false);
})();
