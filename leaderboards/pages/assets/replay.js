"use strict";
// Steps through one episode: what every seat saw, what it replied, what came of it.
(() => {
  const { el, signed, short, fact, scroller } = SRL;
  const STEP_MS = 1200, SPEEDS = [0.5, 1, 2, 4];
  const ALL = "all", MOVER = "mover", BOARD = "board"; // which views are shown; a seat's number shows its own

  // A seat's view is stored as [characters kept from its view one step earlier, what follows them].
  function views(episode) {
    const last = episode.seats.map(() => "");
    const expand = (seat, [kept, rest]) => (last[seat] = last[seat].slice(0, kept) + rest);
    const steps = episode.steps.map((turns) => turns.map((turn) => ({ ...turn, view: expand(turn.seat, turn.view) })));
    const end = episode.end.map((turn, seat) => ({ ...turn, seat, view: expand(seat, turn.view) }));
    return { steps, end };
  }

  const parts = (components) => Object.entries(components).filter(([, value]) => value).map(([name, value]) => `${name} ${signed(value, 3)}`).join(", ");

  const ENDS = { length: ", cut by the length limit", refused: ", the endpoint refused to answer", empty: ", the endpoint sent no text", other: ", ended for an unknown reason" };

  function verdict(turn) {
    if (turn.reply === null) return el("span", { class: "tag" }, "waits");
    const end = ENDS[turn.finish] || "";
    if (!turn.invalid) return el("span", { class: "tag good" }, `plays ${turn.played}${end}`);
    return el("span", { class: "tag bad" }, `not accepted: ${turn.invalid}${end}${turn.played === null ? "" : `, ${turn.played} is played for it`}`);
  }

  // sees: whether the seat's own view is shown, and whole: all of it or what is new
  function seatCard(episode, turn, sees, whole) {
    const paid = parts(turn.components || {}), { seat } = turn;
    return el("section", { class: `seat c${seat % 6}${turn.reply === null ? " waits" : ""}`, "aria-label": `Seat ${seat}` },
      el("h3", {}, el("span", { class: "seat-name" }, `Seat ${seat}: ${episode.seats[seat]}`), "invalid" in turn ? verdict(turn) : null),
      ...(sees ? [el("h4", {}, `the view of player_${seat}${whole ? "" : ", what is new"}: “you” and “your” are player_${seat}`), SRL.seatFigure(episode.env_id, turn.view), el("pre", { class: "view", tabindex: "0" }, (whole ? turn.view : turn.news) || "(nothing)")] : []),
      turn.thoughts ? el("details", { class: "thoughts" }, el("summary", {}, `thoughts, ${turn.thoughts.length} characters; the game does not read them`), el("pre", { tabindex: "0" }, turn.thoughts)) : null,
      ...(turn.reply === null || turn.reply === undefined ? [] : [el("h4", {}, "replies"), el("pre", { class: turn.invalid ? "reply refused" : "reply", tabindex: "0" }, turn.reply || "(nothing)")]),
      paid ? el("p", { class: "paid" }, el("b", {}, `reward ${signed(turn.reward, 3)}`), ` (${paid})`) : null);
  }

  function results(episode) {
    const names = [...new Set(episode.components.flatMap((sums) => Object.keys(sums)))].filter((name) => name !== "outcome");
    const heads = ["Seat", "Outcome", "Reward", ...names];
    return scroller("Results", el("table", { class: "plain" }, el("caption", {}, "Result per seat"),
      el("thead", {}, el("tr", {}, ...heads.map((text, k) => el("th", { scope: "col", class: k ? "number" : null }, text)))),
      el("tbody", {}, ...episode.seats.map((name, seat) => el("tr", { class: `c${seat % 6}` },
        el("th", { scope: "row", class: "clip seat-name", title: name }, `${seat}: ${name}`),
        el("td", { class: "number" }, signed(episode.outcomes[seat], 3)), el("td", { class: "number" }, signed(episode.rewards[seat], 3)),
        ...names.map((key) => el("td", { class: "number" }, key in episode.components[seat] ? short(episode.components[seat][key]) : "–")),
        episode.forfeited.includes(seat) ? el("td", {}, el("span", { class: "tag bad" }, "forfeited")) : null)))));
  }

  // Plays by itself: a step every STEP_MS at speed 1, until the end or until somebody steps.
  function player(total, at, step) {
    let timer = null, speed = 1;
    const sign = el("span", { "aria-hidden": "true" }), name = el("span");
    const button = el("button", { type: "button", class: "play", onclick: () => toggle() }, sign, " ", name);
    const choice = el("select", { "aria-label": "Speed", onchange: () => { speed = Number(choice.value); if (timer !== null) schedule(); } },
      ...SPEEDS.map((value) => el("option", { value, selected: value === 1 }, `${value}×`)));

    function shown() {
      sign.textContent = timer === null ? "▶" : "❚❚";
      name.textContent = timer === null ? "play" : "pause";
    }
    function schedule() {
      clearTimeout(timer);
      timer = setTimeout(() => {
        step(at() + 1);
        if (at() > total) pause(); else schedule();
      }, STEP_MS / speed);
    }
    function pause() {
      clearTimeout(timer);
      timer = null;
      shown();
    }
    function toggle() {
      if (timer !== null) return pause();
      if (at() > total) step(1);
      schedule();
      shown();
    }
    function faster(by) {
      choice.selectedIndex = Math.max(0, Math.min(SPEEDS.length - 1, choice.selectedIndex + by));
      choice.dispatchEvent(new Event("change"));
    }
    shown();
    return { button, choice, toggle, pause, faster, playing: () => timer !== null };
  }

  function viewChoice(episode, onchange) {
    const board = episode.boards.at(-1) !== null;
    return el("select", { "aria-label": "Shown", onchange },
      board ? el("option", { value: BOARD }, "the game") : null,
      el("option", { value: MOVER }, "view of the seat on move"),
      ...episode.seats.map((name, seat) => el("option", { value: seat }, `view of seat ${seat}: ${name}`)),
      el("option", { value: ALL }, "every seat's view"));
  }

  SRL.replayPage = (episode, turn, goto) => {
    const { steps, end } = views(episode), total = steps.length;
    let at = 0;
    const stage = el("div", { class: "stage" }), told = el("output", { "aria-live": "polite" });
    const slider = el("input", { type: "range", min: "1", max: String(total + 1), "aria-label": "Step", oninput: () => step(Number(slider.value)) });
    const button = (sign, name, to) => el("button", { type: "button", "aria-label": name, onclick: () => step(to()) }, sign);
    const [first, back, next, last] = [
      button("«", "First step", () => 1), button("‹", "Previous step", () => at - 1),
      button("›", "Next step", () => at + 1), button("»", "The end", () => total + 1)];
    const film = player(total, () => at, show), shown = viewChoice(episode, () => show(at));
    const all = el("input", { type: "checkbox", onchange: () => show(at) });
    const wholeViews = el("label", {}, all, "whole views");

    function sees(each) {
      if (shown.value === MOVER) return at > total ? each.seat === 0 : each.reply !== null;
      return shown.value === ALL || shown.value === String(each.seat);
    }

    function show(number) {
      at = Math.max(1, Math.min(total + 1, number || 1));
      const turns = at > total ? end : steps[at - 1], board = shown.value === BOARD, after = Math.min(at, total);
      const cards = el("div", { class: "seats" }, ...turns.map((each) => seatCard(episode, each, sees(each), all.checked || at === 1)));
      stage.replaceChildren(board ? el("div", { class: "beside" },
        SRL.boardFigure(episode.env_id, episode.boards[after], at > total ? null : episode.boards[after - 1], episode.seats, at > total ? "at the end" : "after this step"), cards) : cards);
      wholeViews.hidden = board;
      told.setAttribute("aria-live", film.playing() ? "off" : "polite"); // a film would not let a reader finish
      told.textContent = at > total ? "the end" : `step ${at} of ${total}`;
      slider.value = String(at);
      slider.setAttribute("aria-valuetext", told.textContent);
      [first.disabled, back.disabled, next.disabled, last.disabled] = [at === 1, at === 1, at > total, at > total];
      goto(at);
    }

    function step(number) { // by hand
      film.pause();
      show(number);
    }

    function key(event) {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.target.closest("input, select, .scroll, dialog")) return; // these use the keys themselves
      if (event.key === " " && event.target.closest("button, a, pre")) return;
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 1, End: total + 1 }[event.key];
      const does = { " ": film.toggle, "+": () => film.faster(1), "-": () => film.faster(-1) }[event.key];
      if (to === undefined && !does) return;
      event.preventDefault();
      if (does) does(); else step(to);
    }

    show(turn);
    const differs = episode.differs.length ? el("p", { class: "warning", role: "note" }, `This recording does not replay to what it claims: ${episode.differs.join(", ")}.${total ? " What is shown is the replay." : ""}`) : null;
    const nodes = [
      el("p", {}, el("a", { href: `#board=${episode.board}` }, `← ${episode.env_id}`)),
      el("h2", {}, episode.seats.join(" – ")),
      el("dl", { class: "facts" }, fact("environment", episode.env_id), fact("seed", episode.seed), fact("end", episode.termination), fact("match", episode.match)),
      differs, el("section", { class: "card", "aria-label": "Result" }, results(episode)),
      el("div", { class: "steps", role: "group", "aria-label": "Steps" }, film.button, film.choice, first, back, slider, next, last, told, shown, wholeViews, el("span", { class: "quiet keys-hint" }, "space plays, + and − set the speed; arrow keys, Home, End")),
      stage];
    return { nodes, key, show: step, stop: film.pause };
  };
})();
