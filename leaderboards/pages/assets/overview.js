"use strict";
// The first page: all environments, who is best where, what was added.
(() => {
  const { el, signed, whole, counted, plusMinus, grid, card, fact, valueText, badge } = SRL;
  const CHANGES_SHOWN = 8;

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
      { label: "Environment", rem: 15, head: true, first: 1, value: (b) => b.name, cell: (b) => [el("a", { href: `#board=${b.slug}`, class: "name" }, b.name), el("div", { class: "summary" }, b.summary)] },
      { label: "Best agent", rem: 11, narrow: 6.8, first: 1, value: (b) => (best(b) ? best(b).agent.toLowerCase() : null), cell: leaders },
      { label: "Value", rem: 8.4, narrow: 5.6, number: true, cell: (b) => (best(b) ? [el("b", {}, valueText(b.metric, best(b).value)), " ", el("span", { class: "quiet" }, plusMinus(best(b).half_width, b.metric.digits))] : ""), help: "Of the best agent, and how far its 95 % interval reaches." },
      { label: "What it is", rem: 7.4, first: 1, value: (b) => b.mode, cell: (b) => [`${b.metric.name}${b.metric.unit === "return" ? "" : `, ${b.metric.unit}`}`, el("div", { class: "summary" }, b.mode)], help: "Rating, cross-play or focal return, by the kind of game." },
      number("Agents", 4.4, (b) => b.agents, (b) => whole(b.agents)),
      number("Matches", 5, (b) => b.matches, (b) => whole(b.matches), "Evaluation matches that count."),
      number("Seeds", 4.2, (b) => b.clusters, (b) => whole(b.clusters)),
      checked && { label: "Verified", rem: 6, cell: (b) => Object.entries(b.levels).sort().reverse().map(([level, n]) => el("span", { class: "counted" }, badge(level), `\u2009×\u2009${n}`)), help: "Agents by the lowest level of their matches." },
      boards.some((b) => b.hackability) && number("Hackable", 6.4, (b) => b.hackability?.gain ?? null, (b) => (b.hackability?.gain == null ? "–" : [signed(b.hackability.gain, 2), " ", el("span", { class: "quiet" }, plusMinus(b.hackability.half, 2))]), "What the best policy that does not do the task earns above the strong bot: below 0 is sound."),
      number("Replays", 4.8, (b) => b.episodes, (b) => whole(b.episodes)),
    ].filter(Boolean);
    return card("Environments", el("p", { class: "lead", id: "measured" }, ABOUT),
      grid({ label: "Environments", caption: "The best agent of every environment, and how much stands behind it.", columns, rows: boards, sorted: 0, whole: true, cards: true }).node);
  }

  const change = (line) => el("li", {},
    el("time", { datetime: line.when }, line.when.slice(0, 16).replace("T", " ")), " ", el("b", {}, `${line.action} ${line.env}`), ` ${line.agents.join(", ")}`,
    line.reason ? el("span", { class: "quiet" }, ` – ${line.reason}`) : null);

  function log(changes) {
    const [fresh, older] = [changes.slice(0, CHANGES_SHOWN), changes.slice(CHANGES_SHOWN)];
    return card("Changes", el("ul", { class: "log" }, ...fresh.map(change)),
      older.length ? el("details", {}, el("summary", {}, `${counted(older.length, "older change", "older changes")}`), el("ul", { class: "log" }, ...older.map(change))) : null);
  }

  function epochs(boards) {
    return card("Earlier epochs", el("p", { class: "lead" }, "Games that changed, with bundles from before, which count no more. The page of each says what changed."),
      el("ul", { class: "log" }, ...boards.map((board) => el("li", {}, el("a", { href: `#board=${board.slug}` }, board.name), ` ${counted(board.earlier, "bundle", "bundles")} of earlier epochs`))));
  }

  function differences(lines) {
    return card("Since the last site", el("p", { class: "lead" }, "What is new since the site that stood here before this one was built."),
      el("ul", { class: "log" }, ...lines.map((line) => el("li", {}, line))));
  }

  function setAside(parts) {
    return card("Set aside", el("p", { class: "lead" }, "Bundles that lie on this board and do not count, each with the reason."),
      el("ul", { class: "log" }, ...parts.map((part) => el("li", {}, el("code", {}, part.bundle), ` ${part.reason}`))));
  }

  const ABOUT = "Each environment has a page of its own: a rating in Elo where seats compete, the return with strangers where they cooperate, the own return per seat where interests are mixed. "
    + "Agents are ranked by it, language models and bots alike. The ± is half of the 95 % interval over seeds; the sides of an Elo interval differ, and there it is the farther one. Agents whose intervals leave the same place open share it.";

  SRL.overviewPage = (data) => {
    const { boards, all_games: found } = data;
    if (!boards.length) return [el("h2", {}, "Leaderboards"), el("div", { class: "card empty" }, "The store holds no match yet.")];
    const total = (key) => boards.reduce((sum, board) => sum + board[key], 0);
    return [el("h2", {}, "Which agent is best?"),
      el("dl", { class: "facts" }, fact("environments", whole(boards.length)), fact("agents", whole(data.agents)), fact("matches", whole(total("matches"))), fact("replays", whole(total("episodes")))),
      SRL.allGames(found),
      found.games.length ? SRL.byGame(found) : null,
      found.agents.length ? SRL.legality(found) : null,
      environments(boards),
      boards.some((board) => board.earlier) ? epochs(boards.filter((board) => board.earlier)) : null,
      data.differences?.length ? differences(data.differences) : null,
      data.set_aside.length ? setAside(data.set_aside) : null,
      data.changes.length ? log(data.changes) : null];
  };
})();
