"use strict";
// Who against whom: one matrix at a time, of as many of the best agents as the reader wants.
(() => {
  const { el, signed, whole, counted, percent, plusMinus, scroller, choice } = SRL;
  const FEW_GAMES = 10, SURPRISE_Z = 3;

  // kind: { name, lead, legend, cell(i, j) -> { text, tone, weight, told } or null where nothing is known }
  function winKinds(matrix) {
    const { score, low, high, games, wins, draws, surprise } = matrix;
    const record = (i, j) => `${counted(games[i][j], "game", "games")}: ${whole(wins[i][j])} won, ${whole(draws[i][j])} drawn, ${whole(games[i][j] - wins[i][j] - draws[i][j])} lost`;
    const points = (i, j) => `${percent(score[i][j], 1)} of the points (95 %: ${percent(low[i][j])} to ${percent(high[i][j])})`;
    const few = (i, j) => (games[i][j] < FEW_GAMES ? ", too few to say much" : "");
    const most = Math.max(1, ...games.flat());
    return [
      { name: "points", lead: "Percent of the points that the row took from the column.", legend: [["more", "row ahead"], ["less", "column ahead"], ["few", `fewer than ${FEW_GAMES} games`]],
        cell: (i, j) => games[i][j] && { text: String(Math.round(100 * score[i][j])), tone: few(i, j) ? "few" : score[i][j] >= 0.5 ? "more" : "less",
          weight: 160 * Math.abs(score[i][j] - 0.5), told: `${points(i, j)}\n${record(i, j)}${few(i, j)}` } },
      { name: "games", lead: "Games that the two played.", legend: [["more", "many games"]],
        cell: (i, j) => games[i][j] && { text: whole(games[i][j]), tone: "more", weight: 70 * games[i][j] / most, told: record(i, j) } },
      { name: "surprise", lead: `Standard errors between the pair's score and what the two ratings expect of it. Framed from ${SURPRISE_Z} on: pairs that no single number per agent explains.`,
        legend: [["more", "row better than expected"], ["less", "worse than expected"]],
        cell: (i, j) => surprise[i][j] !== null && { text: signed(surprise[i][j], 1), tone: surprise[i][j] >= 0 ? "more" : "less", weight: 14 * Math.abs(surprise[i][j]),
          framed: Math.abs(surprise[i][j]) >= SURPRISE_Z, told: `${signed(surprise[i][j], 1)} standard errors from what the ratings expect\n${points(i, j)}\n${record(i, j)}` } },
    ];
  }

  function partnerKinds(matrix) {
    const { mean, half_width: half, games } = matrix;
    return [{ name: "return", lead: "Mean return of the row agent in games with the column agent, times 100. Framed: with itself.", legend: [["more", "high return"], ["few", `fewer than ${FEW_GAMES} games`]],
      cell: (i, j) => mean[i][j] !== null && { text: String(Math.round(100 * mean[i][j])), tone: games[i][j] < FEW_GAMES ? "few" : "more", weight: 80 * mean[i][j], framed: i === j,
        told: `mean return ${mean[i][j].toFixed(3)} ${plusMinus(half[i][j], 3)}\n${counted(games[i][j], "game", "games")}` } }];
  }

  function drawn(matrix, kind, places, selfPlay) {
    const names = places.map((k) => matrix.agents[k]);
    const cells = names.map((mine, i) => names.map((theirs, j) => {
      if (i === j && !selfPlay) return el("td", { class: "self" }, "·");
      const found = kind.cell(places[i], places[j]);
      const title = i === j ? `${mine} with itself` : `${mine} ${selfPlay ? "with" : "against"} ${theirs}`;
      const cell = el("td", { class: found ? `${found.tone}${found.framed ? " framed" : ""}` : "none", tabindex: "-1", tip: () => `${title}\n${found ? found.told : "never met"}` }, found ? found.text : "");
      if (found) cell.style.setProperty("--weight", Math.min(90, Math.round(found.weight)) + "%");
      return cell;
    }));
    const start = cells[0]?.[selfPlay ? 0 : 1];
    if (start) start.tabIndex = 0;

    function move(event) { // arrow keys walk through the cells; what cannot be focused is skipped
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      let i = cells.findIndex((row) => row.includes(event.target));
      if (!step || i < 0) return;
      event.preventDefault();
      let j = cells[i].indexOf(event.target);
      do { [i, j] = [i + step[0], j + step[1]]; } while (cells[i]?.[j] && !cells[i][j].hasAttribute("tabindex"));
      if (!cells[i]?.[j]) return;
      event.target.tabIndex = -1;
      cells[i][j].tabIndex = 0;
      cells[i][j].focus();
    }

    return el("table", { class: "matrix" }, el("caption", {}, kind.lead),
      el("thead", {}, el("tr", {}, el("td", { class: "none" }), ...names.map((name) => el("th", { scope: "col", title: name }, el("span", {}, name))))),
      el("tbody", { onkeydown: move }, ...cells.map((row, i) => el("tr", {}, el("th", { scope: "row", title: names[i] }, names[i]), ...row))));
  }

  // Places of the best, and of the anchors, whom all others met: at most half of the cells are theirs.
  function compared(names, anchors, n) {
    const met = names.flatMap((name, k) => (anchors.includes(name) ? [k] : [])).slice(0, n >> 1);
    const best = names.map((_, k) => k).filter((k) => !met.includes(k)).slice(0, n - met.length);
    return [...met, ...best].sort((one, other) => one - other);
  }

  function matrixCard(title, matrix, kinds, { agents: { length: total }, anchors }, selfPlay) {
    const sizes = [12, 24, 40, 60].filter((n, k) => k === 0 || n < matrix.agents.length + 12);
    const lead = el("p", { class: "lead" }), legend = el("div", { class: "legend" });
    const frame = scroller(title);
    let kind = kinds[0], n = Math.min(sizes[sizes.length > 1 ? 1 : 0], matrix.agents.length);
    function show() {
      const shown = n < total ? ` ${n} of ${counted(total, "agent", "agents")}: the best, and the anchors that all others met.` : "";
      lead.textContent = kind.lead + shown;
      legend.replaceChildren(...kind.legend.map(([tone, text]) => el("span", {}, el("i", { class: tone }), text)));
      frame.replaceChildren(drawn(matrix, kind, compared(matrix.agents, anchors, n), selfPlay));
    }
    const size = sizes.length > 1 ? el("select", { "aria-label": "Agents shown", onchange: (event) => { n = Math.min(Number(event.target.value), matrix.agents.length); show(); } },
      ...sizes.map((value) => el("option", { value, selected: Math.min(value, matrix.agents.length) === n }, `${Math.min(value, matrix.agents.length)} agents`))) : null;
    show();
    return el("section", { class: "card", "aria-label": title }, el("h3", {}, title),
      el("div", { class: "tools" }, kinds.length > 1 ? choice("What the cells show", kinds.map((each) => [each, each.name]), kind, (next) => { kind = next; show(); }) : null, size),
      lead, frame, legend);
  }

  SRL.winMatrix = (board) => matrixCard("Who beats whom", board.matrix, winKinds(board.matrix), board, false);
  SRL.partnerMatrix = (board) => matrixCard("Who plays well with whom", board.cross_play, partnerKinds(board.cross_play), board, true);
})();
