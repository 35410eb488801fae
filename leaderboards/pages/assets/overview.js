"use strict";
// The first page: all environments, who is best where, what was added.
(() => {
  const { el, whole, plusMinus, grid, scroller, card, fact, ranks, valueText, badge } = SRL;

  function leaders(board) {
    const first = board.top[0];
    if (!first) return el("span", { class: "quiet" }, "no evaluation matches yet");
    const others = board.shared_first - 1;
    return el("div", { class: "who" }, el("span", { class: "name", title: first.agent }, first.agent),
      others > 0 ? el("span", { class: "tag", tip: "Agents that the intervals do not tell apart from the first place." }, `and ${others} more`) : null);
  }

  function environments(boards) {
    const best = (board) => board.top[0];
    const number = (label, rem, value, cell, help) => ({ label, rem, value, cell, help, first: -1, number: true });
    const checked = boards.some((board) => Object.keys(board.levels).length);
    const columns = [
      { label: "Environment", rem: 13, head: true, first: 1, value: (b) => b.name, cell: (b) => el("a", { href: `#board=${b.slug}`, class: "name", title: b.summary }, b.name) },
      { label: "Mode", rem: 7, first: 1, value: (b) => b.mode, cell: (b) => b.mode },
      { label: "Best agent", rem: 14, first: 1, value: (b) => (best(b) ? best(b).agent.toLowerCase() : null), cell: leaders },
      { label: "Value", rem: 9, number: true, cell: (b) => (best(b) ? [el("b", {}, valueText(b.metric, best(b).value)), " ", el("span", { class: "quiet" }, plusMinus(best(b).half_width, b.metric.digits) + (b.metric.digits ? "" : ` ${b.metric.unit}`))] : "") },
      number("Agents", 5, (b) => b.agents, (b) => whole(b.agents)),
      number("Matches", 6, (b) => b.matches, (b) => whole(b.matches), "Evaluation matches that count."),
      number("Seeds", 5, (b) => b.clusters, (b) => whole(b.clusters)),
      checked && { label: "Verified", rem: 7, cell: (b) => Object.entries(b.levels).sort().reverse().map(([level, n]) => el("span", { class: "counted" }, badge(level), `\u2009×\u2009${n}`)), help: "Agents by how far their claim was checked." },
      number("Replays", 5.2, (b) => b.episodes, (b) => whole(b.episodes)),
    ].filter(Boolean);
    return card("Environments", grid({ label: "Environments", columns, rows: boards, sorted: 0 }).node);
  }

  function whoIsBestWhere({ agents, boards, ranks: found, sizes }) {
    const cell = (agent, j) => {
      const place = found[agent][j];
      if (!place) return el("td", { class: "none" }, "");
      const [best, worst] = place, share = 1 - ((best + worst) / 2 - 1) / Math.max(1, sizes[j] - 1);
      const told = ranks({ best_rank: best, worst_rank: worst });
      const node = el("td", { class: "more", tip: `${agents[agent]} in ${boards[j].name}\nrank ${told} of ${sizes[j]}` }, told);
      node.style.setProperty("--weight", Math.round(85 * share ** 2) + "%");
      return node;
    };
    return card("Who is best where",
      el("p", { class: "lead" }, "Ranks that the intervals leave open, per environment; the darker, the nearer to the top. Ratings of different environments are never averaged: agents are listed by their mean place. A bot's name stands for another program in each environment."),
      scroller("Ranks by environment", el("table", { class: "matrix ranks" },
        el("thead", {}, el("tr", {}, el("td", { class: "none" }), ...boards.map((board) => el("th", { scope: "col" }, el("a", { href: `#board=${board.slug}` }, el("span", {}, board.name)))))),
        el("tbody", {}, ...agents.map((name, i) => el("tr", {}, el("th", { scope: "row", title: name }, name), ...boards.map((_, j) => cell(i, j))))))));
  }

  function log(changes) {
    return card("Changes", SRL.plainTable("Changes", ["When", "What", "Environment", "Agents", "Reason"],
      changes.map((line) => [line.when.slice(0, 16).replace("T", " "), line.action, line.env, line.agents.join(", "), line.reason])));
  }

  SRL.overviewPage = (data) => {
    const { boards, standing } = data;
    if (!boards.length) return [el("h2", {}, "Leaderboards"), el("div", { class: "card empty" }, "The store holds no match yet.")];
    const total = (key) => boards.reduce((sum, board) => sum + board[key], 0);
    return [el("h2", {}, "Leaderboards"),
      el("dl", { class: "facts" }, fact("environments", whole(boards.length)), fact("agents", whole(data.agents)), fact("matches", whole(total("matches"))), fact("replays", whole(total("episodes")))),
      environments(boards),
      standing.boards.length > 1 ? whoIsBestWhere(standing) : null,
      data.changes.length ? log(data.changes) : null];
  };
})();
