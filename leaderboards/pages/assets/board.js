"use strict";
// The page of one environment.
(() => {
  const { el, signed, whole, counted, percent, plusMinus, grid, scroller, chart } = SRL;

  const fact = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  const card = (title, ...content) => el("section", { class: "card", "aria-label": title }, el("h3", {}, title), ...content);
  const commands = (...lines) => el("pre", { class: "commands", tabindex: "0" }, lines.join("\n"));

  // A table that stands whole with its first ten rows, and the button for the others.
  function whole10(spec) {
    const table = grid({ ...spec, whole: true, cards: true, most: 10 });
    return [table.node, table.more];
  }

  function plainTable(label, heads, rows) {
    return scroller(label, el("table", { class: "plain" }, el("caption", {}, label),
      el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((cell, k) => el(k ? "td" : "th", { scope: k ? null : "row", class: k ? null : "clip", title: k ? null : cell }, cell)))))));
  }

  function learning(board) {
    const lines = board.curves.map((curve, k) => ({
      label: curve.lineage, colour: k, x: curve.points.map((p) => p.step), y: curve.points.map((p) => p.elo),
      low: curve.points.map((p) => p.low),
      high: curve.points.map((p) => p.high),
    }));
    const levels = board.agents.filter((row) => row.role === "anchor" && row.value !== null).slice(0, 8).map((row) => ({ label: row.agent, y: row.value }));
    return card("Learning",
      ...(lines.length ? [
        el("p", { class: "lead" }, "Rating of each version by training step over all evaluation matches, with its 95 % interval. Dashed: anchors."),
        chart({ title: "Rating history", about: "Elo", lines, levels, xName: "step", yText: (x) => signed(x) })] : []),
      ...(board.versus_start.length ? [
        el("p", { class: "lead spaced" }, "Points per game of a version minus those of its start, from the games between the two alone."),
        plainTable("Against the own start", ["Version", "Difference", "Verdict", "Start", "Games", "Seeds"], board.versus_start.map((r) => [
          r.agent, `${signed(r.difference, 2)} ${plusMinus(r.half_width, 2)}`,
          el("span", { class: `verdict-${r.verdict.split(" ")[0]}` }, r.verdict), r.start, whole(r.games), whole(r.clusters)]))] : []));
  }

  function focal(board) {
    const value = (x) => (x === null ? "–" : `${x.estimate.toFixed(3)} ${plusMinus(x.half_width, 3)}`);
    const columns = [
      { label: "Agent", rem: 16, value: (r) => r.agent.toLowerCase(), first: 1, head: true, cell: (r) => el("span", { class: "name", title: r.agent }, r.agent) },
      { label: "Seats held", rem: 7, value: (r) => r.focal_seats, first: 1, number: true, cell: (r) => `${r.focal_seats} of ${r.seats}` },
      { label: "Own return", rem: 9.5, wide: true, value: (r) => r.focal.estimate, first: -1, number: true, cell: (r) => value(r.focal) },
      { label: "Others' return", rem: 9.5, wide: true, value: (r) => (r.background ? r.background.estimate : null), first: -1, number: true, cell: (r) => value(r.background) },
      { label: "Games", rem: 6, value: (r) => r.games, first: -1, number: true, cell: (r) => whole(r.games) },
    ];
    return card("Visitor and resident",
      el("p", { class: "lead" }, "What an agent earned per seat it held, and what was left for the others, by how many seats it held: with few it is a visitor, with most a resident."),
      ...whole10({ label: "Focal returns", caption: "Own and others' return by agent and number of seats held.", columns, rows: board.focal, sorted: 2 }));
  }

  function diagnostics(board) {
    const found = board.diagnostics;
    const columns = [
      { label: "Agent", rem: 16, value: (r) => r.agent.toLowerCase(), first: 1, head: true, cell: (r) => el("span", { class: "name", title: r.agent }, r.agent) },
      { label: "Nash", rem: 5.5, value: (r) => r.nash, first: -1, number: true, cell: (r) => percent(r.nash), help: "Its share in the equilibrium of the payoff matrix." },
      { label: "In support", rem: 7, value: (r) => r.nash_frequency, first: -1, number: true, cell: (r) => percent(r.nash_frequency), help: "Share of resamples of the seeds in which it is in the equilibrium." },
      { label: "Loses by", rem: 6.5, value: (r) => r.bound, first: -1, number: true, cell: (r) => (r.exploiter ? r.bound.toFixed(3) : "–"), help: "Lower bound of the points per game above one half that the exploiter is shown to take." },
      { label: "Exploiter", rem: 13, wide: true, value: (r) => r.exploiter || "", first: 1, cell: (r) => el("span", { class: "name", title: r.exploiter }, r.exploiter || "–") },
      { label: "Found by", rem: 17, wide: true, cell: (r) => el("span", { class: "name quiet", title: r.budget }, r.budget) },
    ];
    const cyclic = found.cyclic_share === null ? "" : `Cyclic share ${percent(found.cyclic_share)}: the part of the differences between pairs that no ranking explains; chance alone would give ${percent(found.noise_share)}. `;
    return card("Diagnostics",
      el("p", { class: "lead" }, `${cyclic}Of the best ${found.agents.length} agents. These stand beside the ranking and never replace it: on few games they change their mind.`),
      ...whole10({ label: "Diagnostics", caption: "Share in the equilibrium, and who exploits whom.", columns, rows: found.agents, sorted: 2 }));
  }

  function episodes(board) {
    const { mode } = board, place = new Map(board.episodes.map((r, k) => [r, k])); // pairings of the best agents come first
    const result = (r) => r.outcomes.map((x) => signed(x, Number.isInteger(x) ? 0 : 2)).join(" / ");
    const columns = [
      { label: "Replay", rem: 24, head: true, value: (r) => place.get(r), first: 1, cell: (r) => el("a", { href: `#match=${r.match}&turn=1`, class: "name", title: r.seats.join(", ") }, SRL.sentence(r, mode)) },
      { label: "Outcome", rem: 11, narrow: 7, number: true, value: (r) => r.outcomes[0], first: -1, cell: result },
      { label: "Steps", rem: 5, number: true, value: (r) => r.steps, first: -1, cell: (r) => whole(r.steps) },
      { label: "Invalid", rem: 5.5, number: true, value: (r) => r.invalid, first: -1, cell: (r) => whole(r.invalid), help: "Replies that were malformed or illegal." },
      { label: "End", rem: 7, value: (r) => r.termination, first: 1, cell: (r) => r.termination },
    ];
    const count = el("output", { "aria-live": "polite" });
    const table = grid({ label: "Episodes", caption: "Episodes to step through: who sat where, and how it ended.", columns, rows: board.episodes, sorted: 0, whole: true, cards: true, most: 10 });
    const words = el("input", { type: "search", placeholder: "Filter by agent", "aria-label": "Filter episodes", oninput: show });
    function show() {
      const parts = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      const left = table.filter((row) => parts.every((part) => row.seats.join(" ").toLowerCase().includes(part)));
      count.textContent = counted(left, "episode", "episodes");
    }
    show();
    return card("Replays",
      el("p", { class: "lead" }, "A choice of episodes to step through, each played again from its replies when this page was made."),
      el("div", { class: "tools" }, words, count), table.node, table.more);
  }

  // Games that were played before something changed that agents see, or that judges them.
  function earlier(parts) {
    return card("Earlier epochs",
      el("p", { class: "lead" }, "Bundles from before a change of the game, its texts, its rules or its bots. Their games left the rating: they would compare agents that did not play the same game. What changed is read from the matches between references, which every bundle holds."),
      plainTable("Earlier epochs", ["Published", "Agents", "Changed since"], parts.map((part) => [part.published.slice(0, 10), part.agents.join(", "), part.changed])));
  }

  function hackability(found) {
    return card("Hackability",
      el("p", { class: "lead" }, "What policies earn that do not do the task: constants, copies of the prompt, babble, codes without meaning. The gain is above the strong bot in the same seats, seeds and company. The page docs/environments/hackability.md of the repository explains the numbers and lists every finding."),
      plainTable("Hackability", ["Measure", "Value"], found.rows));
  }

  function howTo(board) {
    const env = board.protocol || board.env_id;
    return card("Submit and verify",
      el("p", { class: "lead" }, "Register your agent before its seeds are known, let the board draw them, and play by this environment's protocol. Then make a bundle, check it as anybody else would, and publish it. A run that was interrupted goes on with the same command."),
      commands(`srl leaderboard register ${env} --agent AGENT --out runs/entry`, "srl leaderboard draw runs/entry --board my-board --out runs/entry", `srl leaderboard run ${env} --agent AGENT --tickets runs/entry --out runs/board`, "srl leaderboard bundle runs/board", "srl leaderboard verify runs/board/bundles --level L2", "srl leaderboard publish runs/board/bundles --board my-board", "srl leaderboard build --board my-board --out my-site"),
      el("p", { class: "lead" }, "AGENT is tiny, a hub id or a folder, MODEL+ADAPTER_FOLDER for a trained adapter, or bot:NAME."),
      el("ul", { class: "levels" }, ...Object.values(SRL.LEVELS).map((text) => el("li", {}, text))));
  }

  SRL.boardPage = (board) => {
    const page = [
      el("h2", {}, board.protocol || board.env_id),
      el("p", { class: "lead" }, board.summary || ""),
      board.agents.length ? el("p", { class: "lead", id: "measured" }, SRL.measured(board)) : null,
      board.options ? el("p", { class: "quiet" }, "options ", el("code", {}, board.options)) : null];
    if (!board.agents.length) {
      return [...page, el("div", { class: "card empty" },
        `No evaluation matches yet. Matches of training and selection never feed a ranking (${whole(board.not_rated)} left out).`), howTo(board)];
    }
    return [...page,
      el("dl", { class: "facts" },
        fact("mode", board.mode), fact("agents", whole(board.agents.length)), fact("matches", whole(board.matches)), fact("seeds", whole(board.clusters)),
        board.schedule ? fact("schedule", board.schedule) : null, board.void ? fact("void", whole(board.void)) : null),
      board.resolution === null ? null : el("p", { class: "lead" }, `Differences below about ${board.metric.digits ? board.resolution.toFixed(board.metric.digits) : Math.ceil(board.resolution)} ${board.metric.unit} are not resolved.`),
      SRL.ranking(board),
      board.episodes.length ? episodes(board) : null,
      board.curves.length || board.versus_start.length ? learning(board) : null,
      board.cross_play ? SRL.partnerMatrix(board) : null,
      board.focal.length ? focal(board) : null,
      board.matrix ? SRL.winMatrix(board) : null,
      board.diagnostics ? diagnostics(board) : null,
      board.hackability ? hackability(board.hackability) : null,
      board.earlier?.length ? earlier(board.earlier) : null,
      howTo(board)];
  };
  SRL.plainTable = plainTable;
  SRL.fact = fact;
  SRL.card = card;
  SRL.commands = commands;
})();
