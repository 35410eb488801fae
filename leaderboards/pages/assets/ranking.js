"use strict";
// The ranking of one environment: rank sets, values with intervals, conduct and verification; filters.
(() => {
  const { el, svg, signed, whole, counted, percent, plusMinus, grid } = SRL;

  const MOST_CARDS = 60;
  const ranks = (row) => (row.best_rank === row.worst_rank ? String(row.best_rank) : `${row.best_rank}–${row.worst_rank}`);
  const valueText = (metric, x) => (x === null ? "–" : metric.signed ? signed(x, metric.digits) : x.toFixed(metric.digits));
  const badge = (level, tip = SRL.LEVELS[level]) => el("span", { class: `tag ${level >= "L2" ? "good" : ""}`, tip }, level);
  const standing = (row) => Object.entries(row.levels).sort().map(([level, n]) => `${counted(n, "match", "matches")} at ${level}`).join(", ");

  SRL.LEVELS = {
    L0: "L0: the schedule was played in full, hashes fit.",
    L1: "L1: the numbers were computed again from the matches.",
    L2: "L2: every episode was played again from its replies in a fresh process.",
    L3: "L3: the replies were shown to come from the declared weights.",
  };

  function intervalBar(row, low, high) {
    const wide = 160, tall = 18;
    const place = (x) => 2 + (wide - 4) * (Math.max(low, Math.min(high, x)) - low) / (high - low || 1);
    const inside = (x) => x >= low && x <= high;
    const upright = (kind, x, height) =>
      svg("line", { class: kind, x1: place(x), x2: place(x), y1: (tall - height) / 2, y2: (tall + height) / 2 });
    const ends = [row.low === null ? -Infinity : row.low, row.high === null ? Infinity : row.high];
    return svg("svg", { class: "bar", viewBox: `0 0 ${wide} ${tall}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      inside(0) ? upright("zero", 0, tall) : null,
      ...(row.value === null ? [] : [
        svg("line", { class: "range", x1: place(ends[0]), x2: place(ends[1]), y1: tall / 2, y2: tall / 2 }),
        ...ends.filter(inside).map((end) => upright("end", end, 6)),
        inside(row.value) ? upright("point", row.value, 12) : null]));
  }

  // What the bars span. A newcomer's wide interval is cut off rather than flattening all others.
  function bounds(rows) {
    const firm = rows.filter((row) => !row.provisional.length);
    let low = Infinity, high = -Infinity;
    for (const row of firm.length > 1 ? firm : rows) {
      if (row.value === null) continue;
      low = Math.min(low, row.low === null ? row.value : row.low);
      high = Math.max(high, row.high === null ? row.value : row.high);
    }
    return low < high ? [low, high] : [low - 1, low + 1];
  }

  // The name on one line, what to know about the row on the next: a tag never takes the name's room.
  function agentCell(board, row) {
    const doubts = row.provisional.join("; "), entry = row.entry;
    return el("div", { class: "agent" },
      el("button", { type: "button", class: "name", title: `${row.agent}: where this row comes from`, onclick: () => SRL.showEntry(board, row) }, row.agent),
      el("div", { class: "about" },
        row.role === "frozen" || row.role === "main" ? null : el("span", { class: "tag" }, row.role),
        entry?.endpoint ? el("span", { class: "tag note", tabindex: "0", tip: "Answered through an endpoint: its weights cannot be proven." }, "endpoint") : null,
        doubts ? el("span", { class: "tag note", tabindex: "0", tip: `Provisional: ${doubts}.` }, "provisional") : null,
        entry?.submitter ? el("span", { class: "name quiet", title: entry.submitter }, `by ${entry.submitter}`) : null));
  }

  function verifiedCell(row) {
    if (!row.level) return "";
    const told = Object.entries(row.levels).sort(), tip = `${standing(row)}. ${SRL.LEVELS[row.level]}`;
    return told.length < 2 ? badge(row.level, tip) : told.map(([level, n]) => el("span", { class: "counted" }, badge(level, tip), `\u2009×\u2009${whole(n)}`));
  }

  // A lower bound with its interval; without a search it says so.
  const exploitedText = ({ mean, low, high, budget, exploiter, seeds }) =>
    `${low > 0 ? `at least ${low.toFixed(3)}` : "nothing was shown to beat it"}: ${exploiter}, ${signed(mean, 3)} in [${signed(low, 3)}, ${signed(high, 3)}] over ${counted(seeds, "held-out seed", "held-out seeds")}; ${budget}.`;

  function exploitable({ exploited }) {
    if (!exploited) return el("span", { class: "quiet" }, "not tried");
    const { low, high } = exploited;
    const shown = low > 0 ? [el("b", {}, `≥ ${low.toFixed(3)}`), " ", el("span", { class: "quiet" }, `to ${high.toFixed(3)}`)] : ["none found"];
    return el("span", { tabindex: "0", tip: exploitedText(exploited) }, ...shown);
  }

  const played = (row) => `${counted(row.games, "game", "games")}, ${counted(row.clusters, "seed", "seeds")}`;
  const share = (x) => el("span", { class: x > 0.05 ? "warn" : null }, percent(x, 1));

  function columns(board) {
    const { metric, agents: rows } = board, [low, high] = bounds(rows);
    const has = (key) => rows.some((row) => row[key] !== undefined && row[key] !== null);
    const number = (label, rem, value, cell, help, first = -1, narrow = rem) => ({ label, rem, narrow, value, cell, help, first, number: true });
    const wide = (...args) => ({ ...number(...args), wide: true });
    const mixed = rows.some((row) => Object.keys(row.levels || {}).length > 1), tried = (r) => r.entry?.attempts;
    const all = [
      number("Rank", 3.8, (r) => r.best_rank * 1e6 + r.worst_rank, ranks, "The best and the worst place that the intervals leave open.", 1, 3.2),
      { label: "Agent", rem: has("worst_partner") ? 10 : 14, value: (r) => r.agent.toLowerCase(), first: 1, cell: (r) => agentCell(board, r), head: true },
      wide(metric.name, metric.digits ? 8.8 : 7.8, (r) => r.value, (r) => [el("b", {}, valueText(metric, r.value)), " ", el("span", { class: "quiet" }, plusMinus(r.half_width, metric.digits))],
        `${metric.unit}, and how far its 95 % interval reaches to the farther side.`, -1, 6.9),
      { label: "95 % interval", rem: 6.6, wide: true, value: (r) => r.half_width, first: 1, cell: (r) => intervalBar(r, low, high), help: "Narrowest first when sorted." },
      has("level") && { label: "Verified", rem: mixed ? 10 : 5, value: (r) => r.level, first: -1, cell: verifiedCell, help: "How far its matches were checked; the lowest level of any of them counts." },
      rows.some(tried) && number("Attempts", 5.4, (r) => (tried(r) ? tried(r).registered * 1e7 + tried(r).declared : null), (r) => (tried(r) ? `${whole(tried(r).registered)} / ${whole(tried(r).declared)}` : "–"), "Registrations of this agent with the board / runs that the submitter declares."),
      has("field_score") && number("Score", 4.7, (r) => r.field_score, (r) => percent(r.field_score, 1), "Points per game against the field, each opponent counted once. A draw is half a point."),
      has("held_out") && wide("Unseen partner", 8.6, (r) => r.held_out, (r) => (r.held_out === null ? "–" : [valueText(metric, r.held_out), " ", el("span", { class: "quiet" }, plusMinus(r.held_out_half_width, metric.digits))]), "Mean return with the partners that SRL's training never meets."),
      has("self_play") && number("Self-play", 5.4, (r) => r.self_play, (r) => valueText(metric, r.self_play), "Mean return with itself in all seats; it counts nowhere in the ranking."),
      has("gap") && number("Gap", 4.2, (r) => r.gap, (r) => (r.gap === null ? "–" : signed(r.gap, 3)), "Return lost when the partner is a stranger."),
      has("worst_partner") && { label: "Worst partner", rem: 8, wide: true, value: (r) => r.worst_partner || "", first: 1, cell: (r) => el("span", { class: "name", title: r.worst_partner }, r.worst_partner || "–") },
      has("others") && number("Others'", 6, (r) => r.others, (r) => valueText(metric, r.others), "What was left for the seats that others held."),
      !has("wins") && number("Games", 4.4, (r) => r.games, (r) => el("span", { tip: played(r) }, whole(r.games))),
      has("wins") && number("W / D / L", 8.6, (r) => r.wins / (r.games || 1), (r) => el("span", { tip: played(r) }, `${whole(r.wins)} / ${whole(r.draws)} / ${whole(r.losses)}`), "Games won, drawn and lost."),
      has("value_without_errors") && number(`${metric.name}*`, 5.2, (r) => r.value_without_errors, (r) => valueText(metric, r.value_without_errors), "Without games that a forfeit ended: strength alone, not who survived whose broken replies."),
      board.protocol && wide("Exploitable", 10.6, (r) => (r.exploited ? r.exploited.low : null), (r) => exploitable(r), `At least so much more does the best response that was found earn than the agent itself, in ${metric.unit === "Elo" ? "points per game" : "return"}. A lower bound, as good as its budget.`),
      number("Invalid", 4.7, (r) => r.invalid_share, (r) => share(r.invalid_share), "Share of its replies that were malformed or illegal."),
      number("Forfeits", 5.2, (r) => r.forfeit_share, (r) => share(r.forfeit_share), "Share of its matches that it forfeited."),
    ];
    return all.filter(Boolean);
  }

  function filters(board, onchange) {
    const present = (key) => [...new Set(board.agents.map((row) => row[key]).filter(Boolean))].sort();
    const options = (all, values, text) => [el("option", { value: "" }, all), ...values.map((value) => el("option", { value }, text(value)))];
    const texts = new Map(board.agents.map((row) => [row, `${row.agent} ${row.lineage} ${row.entry?.submitter || ""}`.toLowerCase()]));
    const words = el("input", { type: "search", placeholder: "Filter agents", "aria-label": "Filter agents", oninput: onchange });
    const firm = el("input", { type: "checkbox", onchange });
    const role = el("select", { "aria-label": "Role", onchange }, ...options("all roles", present("role"), (value) => value));
    const level = el("select", { "aria-label": "Verification", onchange }, ...options("any verification", present("level"), (value) => `${value} or more`));
    const nodes = [words, el("label", {}, firm, "hide provisional"), present("role").length > 1 ? role : null, present("level").length ? level : null];
    const test = () => {
      const parts = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      return (row) => parts.every((part) => texts.get(row).includes(part))
        && !(firm.checked && row.provisional.length) && (!role.value || row.role === role.value) && (!level.value || (row.level || "") >= level.value);
    };
    return { nodes: nodes.filter(Boolean), test };
  }

  // One paragraph that says what the number is, how it ranks, and what stands behind it.
  SRL.measured = (board) => {
    const zero = board.anchors.length ? `the mean of the anchors ${board.anchors.slice(0, 4).join(", ")}${board.anchors.length > 4 ? " and others" : ""}` : "the mean of all agents";
    const number = {
      competitive: `The number is a rating in Elo, fitted to who took points from whom. Zero is ${zero}; 100 Elo more mean about 64 % of the points.`,
      cooperative: "The number is cross-play: the mean return of an agent with partners that are neither itself nor of its lineage, between 0 and 1. What it earns with itself stands apart and counts nowhere.",
      mixed: "The number is the focal return: what an agent earned per seat that it held, between 0 and 1.",
    }[board.mode];
    const reach = board.mode === "competitive" ? "how far the 95 % interval over seeds reaches to its farther side" : "half of the 95 % interval over seeds";
    return `${number} Agents are ranked by it. The ± is ${reach}; a rank such as 2–4 names all places that the intervals leave open.`;
  };

  function reading(board) {
    const { metric } = board;
    const meaning = {
      competitive: [
        "200 Elo more mean 76 % of the points, 400 Elo 91 %.",
        "Ratings are Bradley-Terry with ties (Davidson) and a weak prior; all games count alike, the order of games does not matter."],
      cooperative: ["All seats are paid alike, so an agent is as good as it is with strangers: a code that it agreed on with itself earns nothing here. The partners on a board are its protocol's bots; the unseen partner is the one that SRL's training never meets."],
      mixed: ["The focal return is averaged over how many seats the agent held, few or most."],
    }[board.mode];
    return el("details", {}, el("summary", {}, "How to read this"), el("ul", {}, ...[
      ...meaning,
      "Intervals are 95 % and count seeds, not games: games on one seed share their luck. Two agents can be resolved although their single intervals overlap.",
      `Provisional: ${metric.unit === "Elo" ? "the interval is wider than ±75 Elo, no chain of wins leads both to the agent and from it" : "the interval is wider than ±0.1"}, or there are fewer than 30 seeds.`,
      `Only evaluation matches count. Left out: ${whole(board.not_rated)} of training, of selection or of other schedules, and ${whole(board.void)} void ones, where our side failed.`,
    ].map((text) => el("li", {}, text))));
  }

  SRL.exploitedText = exploitedText;
  SRL.ranks = ranks;
  SRL.intervalBar = intervalBar;
  SRL.valueText = valueText;
  SRL.badge = badge;
  SRL.levelsText = standing;
  SRL.ranking = (board) => {
    const { metric } = board;
    const count = el("output", { "aria-live": "polite" });
    const chosen = filters(board, show);
    const cards = SRL.PHONE.matches && board.agents.length <= MOST_CARDS; // a longer field keeps only the rows in view
    const table = grid({ label: "Ranking", caption: `Agents of ${board.protocol || board.env_id} by ${metric.name}, best first.`, columns: columns(board), rows: board.agents, sorted: 0, tall: 52, whole: cards, cards, most: cards ? 10 : Infinity, rowClass: (row) => (row.provisional.length ? "unsure" : null) });
    function show() {
      const left = table.filter(chosen.test()), total = board.agents.length;
      count.textContent = left === total ? counted(total, "agent", "agents") : `${whole(left)} of ${counted(total, "agent", "agents")}`;
    }
    show();
    return el("section", { class: "card", "aria-label": "Ranking" }, el("div", { class: "tools" }, ...chosen.nodes, count), table.node, table.more, reading(board));
  };
})();
