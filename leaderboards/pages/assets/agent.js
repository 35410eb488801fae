"use strict";
// The page of one agent: how good it is over all games and in each, what it is, who sent it, its mistakes, some matches.
(() => {
  const { el, signed, whole, counted, percent, plusMinus, short, grid, card, fact, valueText } = SRL;

  function summary(agent, found) {
    const rated = agent.value !== null;
    const place = rated ? `Rank ${SRL.agentRank(agent)} of ${found.agents.filter((row) => row.value !== null).length} over all games, ${signed(agent.value)} ${plusMinus(agent.half_width)} Elo.` : `Not rated over all games: ${agent.provisional.join("; ")}.`;
    const clean = agent.clean && rated ? ` Given clean play on both sides ${signed(agent.clean[0])} ${plusMinus(agent.clean[1])}.` : "";
    const best = [...agent.games].filter((game) => game.row.best_rank === 1).map((game) => game.name);
    return `${place}${clean}${best.length ? ` It may be the best in ${best.slice(0, 3).join(", ")}.` : ""}`;
  }

  function games(agent) {
    const number = (label, rem, value, cell, help, first = -1, wide = false) => ({ label, rem, value, cell, help, first, wide, number: true });
    const [BEST, CLEAN, ELO, HALF, CLEAN_ELO, CLEAN_HALF] = [0, 3, 4, 5, 6, 7];
    const columns = [
      { label: "Game", rem: 10, head: true, value: (g) => g.name, first: 1, cell: (g) => el("a", { href: `#board=${g.slug}`, class: "name" }, g.name) },
      number("Rank", 4.8, (g) => g.place[BEST], (g) => `${SRL.ranks(g.row)} of ${g.of}`, "Among models and bots of the game.", 1),
      { label: "Result", rem: 8, number: true, cell: (g) => [el("b", {}, valueText(g.metric, g.row.value)), " ", el("span", { class: "quiet" }, `${plusMinus(g.row.half_width, g.metric.digits)} ${g.metric.unit}`)], help: "What the game ranks by.", wide: true },
      number("Elo", 7.4, (g) => g.place[ELO], (g) => SRL.agentElo(g.place[ELO], g.place[HALF]), "On the scale of all games: 0 is the mean of the game's anchors.", -1, true),
      number("Given clean play", 8.6, (g) => g.place[CLEAN_ELO], (g) => SRL.agentElo(g.place[CLEAN_ELO], g.place[CLEAN_HALF]), null, -1, true),
      number("Clean", 4.8, (g) => g.place[CLEAN], (g) => percent(g.place[CLEAN])),
      number("Own error", 5.6, (g) => g.row.forfeit_share, (g) => percent(g.row.forfeit_share)),
      number("Refused", 5.4, (g) => g.row.invalid_share, (g) => percent(g.row.invalid_share, 1)),
      { label: "Why refused", rem: 8.4, wide: true, cell: (g) => SRL.mistakeTags({ mistakes: g.row.mistakes || {}, invalid_share: g.row.invalid_share }) },
      { label: "First seat", rem: 7.4, number: true, wide: true, value: (g) => (g.row.first_seat ? g.row.first_seat[0] : null), first: -1, help: "Share of the points, or return, that it earns more in the first seat than in the others, over start states that it played from both.",
        cell: (g) => (g.row.first_seat ? [el("b", {}, signed(g.row.first_seat[0], 2)), " ", el("span", { class: "quiet" }, plusMinus(g.row.first_seat[1], 2))] : "–") },
      number("Tokens", 4.6, (g) => g.row.tokens_per_game, (g) => short(g.row.tokens_per_game), "Written per game."),
    ];
    return card("Games", grid({ label: "Games of this agent", caption: "Rank, strength, legality and price in each game that it entered.", columns, rows: agent.games, sorted: 0, whole: true, cards: true }).node);
  }

  function prompt(shown) {
    if (!shown) return [el("p", { class: "quiet" }, "Nothing is shown before the game's own text.")];
    return [
      shown.system ? el("h4", {}, "System message") : null, shown.system ? el("pre", { class: "words", tabindex: "0" }, shown.system) : null,
      ...(shown.examples || []).flatMap((turn, k) => [el("h4", {}, `Shown turn ${k + 1}`), el("pre", { class: "words", tabindex: "0" }, `${turn.observation}\n→ ${turn.reply}`)]),
    ].filter(Boolean);
  }

  function contents(spec) {
    const digits = (text) => el("code", { title: text }, text.slice(0, 12));
    const served = spec.endpoint, sampling = spec.sampling || {};
    return el("dl", { class: "entry" },
      served ? fact("served", `${served.reported || served.model} at ${served.url}`) : null,
      spec.base ? fact("base", spec.base) : null,
      spec.base_sha256 ? fact("weights", digits(spec.base_sha256)) : null,
      spec.base ? fact("adapter", spec.adapter ? digits(spec.adapter) : "none, the base as it is") : null,
      spec.lora ? fact("LoRA", `rank ${spec.lora[0]}, alpha ${spec.lora[1]}`) : null,
      "temperature" in sampling ? fact("sampling", `temperature ${sampling.temperature}, at most ${counted(sampling.max_new_tokens, "token", "tokens")} per reply`) : null);
  }

  // Games whose agent has the same contents are told together.
  function what(agent) {
    const same = new Map();
    for (const game of agent.games) {
      const { parser, ...rest } = game.row.contents || {}, key = JSON.stringify(rest); // the parser is the game's
      same.set(key, [...(same.get(key) || []), game]);
    }
    return card("What it is", ...[...same.values()].flatMap((group) => {
      const spec = group[0].row.contents || {};
      const known = Object.keys(spec).length > 0;
      return [same.size > 1 ? el("h4", {}, `In ${group.map((game) => game.name).join(", ")}`) : null,
        known ? contents(spec) : el("p", { class: "quiet" }, "The store records nothing of its contents."), ...(known ? prompt(spec.shown) : [])];
    }).filter(Boolean));
  }

  const origins = (agent) => card("Who sent it", ...agent.games.map((game, k) => el("details", { open: k === 0 },
    el("summary", {}, game.name), el("p", {}, `Checks: ${SRL.verification(game.row)}.`), ...SRL.origin(game, game.row))));

  function matches(agent) {
    const shown = agent.games.filter((game) => game.episodes.length);
    if (!shown.length) return null;
    return card("Sample matches", ...shown.flatMap((game) => [el("h4", {}, game.name),
      el("ul", { class: "log" }, ...game.episodes.map((r) => el("li", {}, el("a", { href: `#match=${r.match}&turn=1` }, SRL.sentence(r, game.mode)))))]));
  }

  function exploits(agent) {
    const tried = agent.games.filter((game) => game.row.exploited), rest = agent.games.length - tried.length;
    return card("Exploitability",
      el("p", { class: "lead" }, "How much more than the agent itself the best response that was found earns beside it, on start states that the search never played. A lower bound, as good as its budget."),
      el("dl", { class: "entry" }, ...tried.map((game) => fact(game.name, SRL.exploitedText(game.row.exploited)))),
      rest ? el("p", { class: "quiet" }, tried.length ? `Not tried in ${counted(rest, "other game", "other games")}.` : "Not tried: no best response was searched against this agent.") : null);
  }

  SRL.agentPage = (agent, found) => [
    el("h2", {}, agent.agent), el("p", { class: "answer" }, summary(agent, found)),
    el("dl", { class: "facts" },
      agent.base ? fact("base", agent.base) : null, agent.submitter ? fact("by", agent.submitter) : null,
      fact("games", `${agent.entered} of ${found.games.length}`), fact("matches", whole(agent.matches)),
      fact("clean", percent(agent.clean_share)), fact("tokens per game", short(agent.tokens_per_game)),
      fact("replies per game", agent.replies_per_game === null ? "–" : agent.replies_per_game.toPrecision(3)),
      agent.seconds_per_game === null || agent.seconds_per_game === undefined ? null : fact("seconds per game", agent.seconds_per_game.toPrecision(3)),
      agent.cost_per_game === null ? null : fact("per game", SRL.agentMoney(agent))),
    games(agent), what(agent), matches(agent), origins(agent),
    exploits(agent),
  ];
})();
