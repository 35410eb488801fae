"use strict";
// Agents over all games: the table that answers who is best, the picture of rating against price, legality, places by game.
(() => {
  const { el, svg, signed, whole, counted, percent, plusMinus, short, grid, scroller, card, choice, ranks, badge } = SRL;
  const PHONE = matchMedia("(max-width: 44rem)"), FIRST = PHONE.matches ? 5 : 10, CROWD = 25;
  const KINDS = {
    cut: "cut by the limit of length", malformed: "no move in it", illegal: "a move that the rules forbid",
    declined: "declined by the model or its provider", empty: "no text",
  };

  const money = (row) => (row.cost_per_game === null ? "–" : `${row.cost_per_game.toPrecision(2)} ${row.currency}`);
  const seconds = (row) => (row.seconds_per_game === null || row.seconds_per_game === undefined ? "–" : row.seconds_per_game.toPrecision(2));
  const elo = (value, half) => (value === null || value === undefined ? "–" : [el("b", {}, signed(value)), " ", el("span", { class: "quiet" }, plusMinus(half))]);
  const rank = (row) => (row.best_rank === null ? "–" : ranks(row));
  const orderOf = (row) => (row.best_rank === null ? null : row.best_rank * 1e6 + row.worst_rank);
  const link = (row) => el("a", { href: `#agent=${row.id}`, class: "name", title: row.agent }, row.agent);

  // Rows of the first page, whose keys are written once and whose doubts are numbers of texts.
  SRL.unpacked = ({ agents: { keys, rows }, doubts }) => rows.map((values) => {
    const row = Object.fromEntries(keys.map((key, k) => [key, values[k]]));
    return { ...row, provisional: row.provisional.map((k) => doubts[k]) };
  });

  // What the bars and the picture span: intervals that are not wider than what they tell apart.
  function bounds(rows) {
    const rated = rows.filter((row) => row.value !== null);
    const values = rated.map((row) => row.value), reach = Math.max(50, Math.max(...values) - Math.min(...values));
    const low = rated.map((row) => Math.max(row.low ?? -Infinity, row.value - reach)), high = rated.map((row) => Math.min(row.high ?? Infinity, row.value + reach));
    return rated.length ? [Math.min(...low), Math.max(...high)] : [-1, 1];
  }

  function agentCell(row) {
    const doubts = row.provisional.join("; ");
    return el("div", { class: "agent" }, link(row), el("div", { class: "about" },
      row.endpoint ? el("span", { class: "tag note", tabindex: "0", tip: "Answered through an endpoint: its weights cannot be proven." }, "endpoint") : null,
      doubts ? el("span", { class: "tag note", tabindex: "0", tip: `${row.value === null ? "Not rated" : "Provisional"}: ${doubts}.` }, row.value === null ? "not rated" : "provisional") : null,
      row.base && row.base !== row.agent ? el("span", { class: "quiet" }, row.base) : null,
      row.submitter ? el("span", { class: "quiet" }, `by ${row.submitter}`) : null));
  }

  function columns(found) {
    const rows = found.agents, [low, high] = bounds(rows), games = found.games.length;
    const known = (key) => rows.some((row) => row[key] !== null && row[key] !== undefined);
    const number = (label, rem, value, cell, help, first = -1) => ({ label, rem, value, cell, help, first, number: true });
    return [
      number("Rank", 4, orderOf, rank, "Places that the intervals leave open.", 1),
      { label: "Agent", rem: 12, head: true, value: (r) => r.agent.toLowerCase(), first: 1, cell: agentCell },
      number("Rating", 7.4, (r) => r.value, (r) => elo(r.value, r.half_width), "Elo over all games, and half of its 95 % interval. 0 is the mean of these agents."),
      { label: "95 % interval", rem: 6.8, cell: (r) => (r.value === null ? "" : SRL.intervalBar(r, low, high)), wide: true },
      number("Games", 5.2, (r) => r.entered, (r) => `${r.entered} of ${games}`, "Games that it entered. One left out neither costs nor brings anything."),
      number("Clean", 5, (r) => r.clean_share, (r) => percent(r.clean_share), "Share of its games that no forfeit ended, by broken replies of whomever."),
      number("Tokens", 5.4, (r) => r.tokens_per_game, (r) => short(r.tokens_per_game), "Tokens that it wrote per game."),
      known("seconds_per_game") && number("Seconds", 5.2, (r) => r.seconds_per_game, (r) => seconds(r), "Seconds per game that its endpoint took for replies, others being asked at the same time. Not known of agents that were played from weights."),
      known("cost_per_game") && number("Price", 6.4, (r) => r.cost_per_game, money, "Money per game, by the declared prices."),
      known("level") && { label: "Verified", rem: 5, value: (r) => r.level, first: -1, cell: (r) => (r.level ? badge(r.level) : ""), help: "Lowest level of checks of any of its games." },
    ].filter(Boolean);
  }

  // --- the picture ---------------------------------------------------------------------------

  const WIDE = 440, TALL = 330, LEFT = 46, RIGHT = 14, TOP = 20, BOTTOM = 44;

  function ticks(low, high, most) {
    const rough = (high - low) / most, unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 5, 10].find((k) => k * unit >= rough), found = [];
    for (let x = Math.ceil(low / step) * step; x <= high; x += step) found.push(x);
    return found;
  }

  // Agents that nobody cheaper equals, from the cheapest on.
  function frontier(points) {
    const best = [];
    for (const point of [...points].sort((a, b) => a.price - b.price || b.row.value - a.row.value)) {
      if (!best.length || point.row.value > best[best.length - 1].row.value) best.push(point);
    }
    return best;
  }

  function picture(rows) {
    const rated = rows.filter((row) => row.value !== null);
    const paid = rated.some((row) => row.cost_per_game !== null), price = (row) => (paid ? row.cost_per_game : row.tokens_per_game);
    const priced = rated.filter((row) => price(row) > 0), [low, high] = bounds(rated);
    const pad = 0.04 * (high - low), y = (v) => TOP + (TALL - TOP - BOTTOM) * (high + pad - Math.max(low, Math.min(high, v))) / (high - low + 2 * pad);
    const logs = priced.map((row) => Math.log10(price(row)));
    const [from, to] = logs.length ? [Math.min(...logs) - 0.3, Math.max(...logs) + 0.3] : [0, 1], strip = priced.length < rated.length ? 60 : 0;
    const x = (v) => LEFT + 10 + (WIDE - LEFT - RIGHT - strip - 20) * (Math.log10(v) - from) / (to - from);
    const points = priced.map((row) => ({ row, price: price(row), x: x(price(row)), y: y(row.value) }));
    const rest = rated.filter((row) => !(price(row) > 0)).map((row, k, all) => ({ row, price: null, x: WIDE - RIGHT - strip + strip * (k + 1) / (all.length + 1), y: y(row.value) }));
    const edge = frontier(points), nodes = [];
    for (const v of ticks(low, high, 5)) nodes.push(svg("line", { class: "rule", x1: LEFT, x2: WIDE - RIGHT, y1: y(v), y2: y(v) }), svg("text", { class: "tick end", x: LEFT - 6, y: y(v) }, signed(v)));
    const marks = logs.length ? [1, 2, 5].flatMap((k) => ticks(Math.floor(from), Math.ceil(to), 12).filter(Number.isInteger).map((e) => k * 10 ** e)).filter((v) => Math.log10(v) >= from && Math.log10(v) <= to).sort((a, b) => a - b) : [];
    const few = marks.length > 7 ? marks.filter((v) => /^1(0*|e.*)$|^0\.0*1$/.test(String(v))) : marks;
    for (const v of few) nodes.push(svg("text", { class: "tick", x: x(v), y: TALL - BOTTOM + 16 }, short(v)));
    nodes.push(svg("text", { class: "tick end", x: LEFT - 6, y: TOP - 6 }, "Elo"));
    nodes.push(svg("text", { class: "tick", x: (LEFT + WIDE - RIGHT - strip) / 2, y: TALL - 8 }, `${paid ? `${rated.find((row) => row.currency).currency} per game` : "tokens written per game"}, dearer to the right`));
    if (strip) nodes.push(svg("text", { class: "tick", x: WIDE - RIGHT - strip / 2, y: TALL - BOTTOM + 16 }, "no price"));
    if (edge.length > 1) nodes.push(svg("path", { class: "frontier", d: edge.map((p, k) => (k ? `H${p.x}V${p.y}` : `M${p.x} ${p.y}`)).join("") }));
    const crowd = rated.length > CROWD, leads = (row) => edge.some((p) => p.row === row); // in a crowd only the frontier has names and intervals
    for (const { row, x: at, y: mid } of [...points, ...rest]) {
      const dot = svg("g", { class: `dot${leads(row) ? " best" : ""}`, tip: `${row.agent}: ${signed(row.value)} ${plusMinus(row.half_width)} Elo, rank ${rank(row)}\n${paid ? `${money(row)} per game` : `${short(row.tokens_per_game)} tokens per game`}` },
        crowd && !leads(row) ? null : svg("line", { x1: at, x2: at, y1: y(row.low ?? low), y2: y(row.high ?? high) }), svg("circle", { cx: at, cy: mid, r: crowd && !leads(row) ? 3 : 4.5 }));
      nodes.push(dot);
    }
    nodes.push(...labels(crowd ? [...edge].reverse() : [...edge].reverse().concat(points, rest)));
    const told = rated.slice(0, 5).map((row) => `${row.agent} ${signed(row.value)} Elo at ${paid ? money(row) : `${short(row.tokens_per_game)} tokens`} per game`).join("; ");
    return el("figure", { class: "priced" },
      svg("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, role: "img", "aria-label": `Rating against price. ${told}.` }, ...nodes),
      el("figcaption", { class: "quiet" }, `Rating with its 95 % interval against ${paid ? "money" : "tokens written"} per game.${edge.length > 1 ? " Line: nobody cheaper is as strong." : ""}`));
  }

  // Names that find room beside their point, the first asked first.
  function labels(points) {
    const taken = [], nodes = [], named = new Set();
    for (const point of points.slice(0, 60)) {
      const text = point.row.agent.length > 22 ? `${point.row.agent.slice(0, 21)}…` : point.row.agent, wide = 6.6 * text.length;
      const left = point.x + 9 + wide > WIDE - 2, from = left ? point.x - 9 - wide : point.x + 9;
      const box = [from, from + wide, point.y - 8, point.y + 8];
      if (named.has(point.row) || from < LEFT || taken.some((t) => t[0] < box[1] && box[0] < t[1] && t[2] < box[3] && box[2] < t[3])) continue;
      taken.push(box);
      named.add(point.row);
      nodes.push(svg("text", { class: `label${left ? " end" : ""}`, x: left ? point.x - 9 : point.x + 9, y: point.y }, text));
    }
    return nodes;
  }

  // --- the first screen ----------------------------------------------------------------------

  function answer(found) {
    const rated = found.agents.filter((row) => row.value !== null);
    if (!rated.length) return found.agents.length ? "No two models entered the same game yet, so there is no rating over all games." : "No model entered yet: the rows below are bots.";
    const [first] = rated, shared = rated.filter((row) => row.best_rank === 1);
    const price = first.cost_per_game !== null ? `${money(first)} and ${short(first.tokens_per_game)} tokens per game` : first.tokens_per_game !== null ? `${short(first.tokens_per_game)} tokens per game` : "an unknown price";
    const who = shared.length > 1 ? `${first.agent} leads, and the intervals do not tell it from ${counted(shared.length - 1, "other agent", "other agents")}` : `${first.agent} is the best of ${rated.length} rated agents`;
    return `${who}: ${signed(first.value)} ${plusMinus(first.half_width)} Elo over ${counted(first.rated_in, "game", "games")}, ${percent(first.clean_share)} of its games clean, at ${price}.`;
  }

  function ranking(found) {
    const table = grid({ label: "All games", caption: "Agents over all games, best first.", columns: columns(found), rows: found.agents, sorted: 0, whole: true, cards: true, most: FIRST, rowClass: (row) => (row.provisional.length ? "unsure" : null) });
    return el("div", { class: "standing-table" }, table.node, table.more, found.more_agents ? el("p", { class: "quiet" }, `${counted(found.more_agents, "weaker agent is", "weaker agents are")} in data.json.`) : null);
  }

  const SUBSETS = "Every game counts alike, however many matches were played of it. An agent may enter any games: it is compared with the others of those games only, so a game that was left out neither costs nor brings anything, and how strong it would be there is not guessed.";
  const MEANING = [
    "The rating is the least-squares fit to the differences in the games' own tables; 0 is the mean of the rated agents, 100 Elo more mean about 64 % of the points. Where seats do not compete, agents are compared by what they earned in the same seats, company and start state.",
    "Intervals are 95 %, count seeds and not matches, and say how sure the strengths in these games are: nothing about other games.",
    "Clean is the share of games that no forfeit ended. It is legality, and apart from skill: see below what the strength is given clean play on both sides.",
    "Tokens are what the agent wrote, of an endpoint what it reported. Money is by declared prices; bundles hold no times, so no seconds are shown. Shares and prices are means over the agent's games.",
    "Bots have no rating here, because a bot's name stands for another program in each game. They are the anchors inside each game, below.",
  ];

  SRL.allGames = (found) => card("Best over all games",
    el("p", { class: "answer" }, answer(found)),
    found.agents.length ? el("div", { class: `first-screen${found.agents.some((row) => row.value !== null) ? "" : " alone"}` }, ranking(found), found.agents.some((row) => row.value !== null) ? picture(found.agents) : null) : null,
    el("p", { class: "lead", id: "subsets" }, SUBSETS, found.joined === false ? " Here no chain of games joins all agents, so that no interval over all games is known." : ""),
    el("details", {}, el("summary", {}, "How to read this"), el("ul", {}, ...MEANING.map((text) => el("li", {}, text)))));

  // --- skill and legality --------------------------------------------------------------------

  function kinds(row) {
    const total = Object.values(row.mistakes).reduce((sum, n) => sum + n, 0);
    if (!total) return el("span", { class: "quiet" }, row.invalid_share ? "kinds unknown" : "none");
    const tags = Object.entries(row.mistakes).sort((a, b) => b[1] - a[1]).map(([kind, n]) => el("span", { class: "tag", tabindex: "0", tip: `${counted(n, "refused reply", "refused replies")}: ${KINDS[kind] || kind}` }, `${kind}\u2009${percent(n / total)}`));
    return el("span", { class: "tags" }, ...tags);
  }

  SRL.legality = (found) => {
    const number = (label, rem, value, cell, help, first = -1) => ({ label, rem, value, cell, help, first, number: true });
    const wide = (...args) => ({ ...number(...args), wide: true });
    const gain = (r) => (r.clean && r.value !== null ? r.clean[0] - r.value : null);
    const columns = [
      { label: "Agent", rem: 11, head: true, value: (r) => r.agent.toLowerCase(), first: 1, cell: link },
      number("As played", 7.4, (r) => r.value, (r) => elo(r.value, r.half_width), "Elo over all games."),
      wide("Given clean play", 8.6, (r) => (r.clean ? r.clean[0] : null), (r) => (r.clean ? elo(...r.clean) : "–"), "Elo from the games that no forfeit ended, on either side. It counts survivors, so both numbers are shown."),
      number("Gain", 4.6, gain, (r) => (gain(r) === null ? "–" : signed(gain(r)))),
      number("Clean", 4.8, (r) => r.clean_share, (r) => percent(r.clean_share), "Share of its games that no forfeit ended."),
      number("Own error", 6, (r) => r.forfeit_share, (r) => percent(r.forfeit_share), "Share of its games that it forfeited."),
      number("Others'", 5.2, (r) => r.others_forfeit_share, (r) => percent(r.others_forfeit_share), "Share of its games that another agent forfeited."),
      number("Refused", 5.4, (r) => r.invalid_share, (r) => percent(r.invalid_share, 1), "Share of its replies that were refused."),
      { label: "Why refused", rem: 13, cell: kinds, wide: true },
    ];
    const table = grid({ label: "Skill and legality", caption: "Strength as played and given clean play, and whose errors ended games.", columns, rows: found.agents, sorted: 1, whole: true, cards: true, most: FIRST });
    return card("Skill and legality apart", el("p", { class: "lead" }, "How strong an agent is, and how often a game ends by broken replies instead of play. A game is clean where nobody forfeited it."), table.node, table.more);
  };

  // --- agents by games -----------------------------------------------------------------------

  const ORDER = { best: 0, worst: 1, value: 2, clean: 3, elo: 4, half: 5 };
  const VIEWS = [
    ["rank", "Ranks that the intervals leave open within each game, models and bots together; the darker, the nearer to the top."],
    ["Elo", "Elo within each game; 0 is the mean of the game's anchors, which are bots."],
    ["clean games", "Percent of the games that no forfeit ended."],
  ];

  SRL.byGame = (found) => {
    const { games } = found, models = found.agents.filter((row) => row.places);
    const lead = el("p", { class: "lead" }), frame = scroller("Agents by game");
    const at = (place, key) => place[ORDER[key]];

    function shade(place, j, view) {
      if (view === "Elo") return at(place, "elo") === null ? 0 : Math.max(0, Math.min(85, 42 + at(place, "elo") / 12));
      if (view === "clean games") return 85 * at(place, "clean");
      return 85 * (1 - ((at(place, "best") + at(place, "worst")) / 2 - 1) / Math.max(1, games[j].agents - 1)) ** 2;
    }

    function cell(row, j, view) {
      const place = row.places[j];
      if (!place) return el("td", { class: "none" });
      const told = ranks({ best_rank: at(place, "best"), worst_rank: at(place, "worst") });
      const text = view === "rank" ? told : view === "Elo" ? (at(place, "elo") === null ? "?" : signed(at(place, "elo"))) : at(place, "clean") === null ? "?" : String(Math.round(100 * at(place, "clean")));
      const node = el("td", { class: "more", tip: `${row.agent} in ${games[j].name}\nrank ${told} of ${games[j].agents}\n${at(place, "elo") === null ? "Elo unknown" : `${signed(at(place, "elo"))} ${plusMinus(at(place, "half"))} Elo`}\n${percent(at(place, "clean"))} of its games clean` }, text);
      node.style.setProperty("--weight", Math.round(shade(place, j, view)) + "%");
      return node;
    }

    const line = (row, view, head) => el("tr", {}, el("th", { scope: "row", title: row.agent }, head), ...games.map((_, j) => cell(row, j, view)));
    function show(view) {
      lead.textContent = VIEWS.find(([name]) => name === view)[1];
      frame.replaceChildren(el("table", { class: "matrix ranks" }, el("caption", {}, "Agents by games"),
        el("thead", {}, el("tr", {}, el("td", { class: "none" }), ...games.map((game) => el("th", { scope: "col" }, el("a", { href: `#board=${game.slug}` }, el("span", {}, game.name)))))),
        el("tbody", {}, ...models.map((row) => line(row, view, el("a", { href: `#agent=${row.id}` }, row.agent)))),
        el("tbody", { class: "bots" }, el("tr", { class: "group" }, el("th", { scope: "rowgroup" }, "bots, the anchors"), el("td", { class: "none", colspan: games.length })), ...found.bots.map((row) => line(row, view, row.agent)))));
    }
    show("rank");
    return el("section", { class: "card", "aria-label": "Who is best where" }, el("h3", {}, "Agents by game"),
      el("div", { class: "tools" }, choice("What the cells show", VIEWS.map(([name]) => [name, name]), "rank", show)), lead, frame,
      el("p", { class: "quiet" }, "A bot's name stands for another program in each game."));
  };

  Object.assign(SRL, { PHONE, agentElo: elo, mistakeTags: kinds, agentMoney: money, agentRank: rank });
})();
