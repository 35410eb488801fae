"use strict";
// Steps through one episode: what every seat saw, what it replied, what came of it.
(() => {
  const { el, signed, short, fact, scroller } = SRL;

  // A seat's view is stored as [characters kept from its view one step earlier, what follows them].
  function views(episode) {
    const last = episode.seats.map(() => "");
    const expand = (seat, [kept, rest]) => (last[seat] = last[seat].slice(0, kept) + rest);
    const steps = episode.steps.map((turns) => turns.map((turn) => ({ ...turn, view: expand(turn.seat, turn.view) })));
    const end = episode.end.map((turn, seat) => ({ ...turn, seat, view: expand(seat, turn.view) }));
    return { steps, end };
  }

  const parts = (components) => Object.entries(components).filter(([, value]) => value).map(([name, value]) => `${name} ${signed(value, 3)}`).join(", ");

  const ENDS = { length: ", cut by the length limit", refused: ", the endpoint refused to answer", other: ", ended for an unknown reason" };

  function verdict(turn) {
    if (turn.reply === null) return el("span", { class: "tag" }, "waits");
    const end = ENDS[turn.finish] || "";
    if (!turn.invalid) return el("span", { class: "tag good" }, `accepted${end}`);
    return el("span", { class: "tag bad" }, `not accepted: ${turn.invalid}${end}${turn.replaced ? ", a move was made for it" : ""}`);
  }

  function seatCard(episode, turn, whole) {
    const shown = whole ? turn.view : turn.news;
    const paid = parts(turn.components || {});
    return el("section", { class: `seat c${turn.seat % 6}${turn.reply === null ? " waits" : ""}`, "aria-label": `Seat ${turn.seat}` },
      el("h3", {}, el("span", { class: "seat-name" }, `Seat ${turn.seat}: ${episode.seats[turn.seat]}`), "invalid" in turn ? verdict(turn) : null),
      el("h4", {}, whole ? "sees" : "sees, what is new"), el("pre", { tabindex: "0" }, shown || "(nothing)"),
      ...(turn.reply === null || turn.reply === undefined ? [] : [el("h4", {}, "replies"), el("pre", { class: turn.invalid ? "reply refused" : "reply", tabindex: "0" }, turn.reply || "(nothing)")]),
      paid ? el("p", { class: "paid" }, el("b", {}, `reward ${signed(turn.reward, 3)}`), ` (${paid})`) : null);
  }

  function results(episode) {
    const names = [...new Set(episode.components.flatMap((sums) => Object.keys(sums)))].filter((name) => name !== "outcome");
    const heads = ["Seat", "Outcome", "Reward", ...names];
    return scroller("Results", el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...heads.map((text, k) => el("th", { scope: "col", class: k ? "number" : null }, text)))),
      el("tbody", {}, ...episode.seats.map((name, seat) => el("tr", { class: `c${seat % 6}` },
        el("th", { scope: "row", class: "clip seat-name", title: name }, `${seat}: ${name}`),
        el("td", { class: "number" }, signed(episode.outcomes[seat], 3)), el("td", { class: "number" }, signed(episode.rewards[seat], 3)),
        ...names.map((key) => el("td", { class: "number" }, key in episode.components[seat] ? short(episode.components[seat][key]) : "–")),
        episode.forfeited.includes(seat) ? el("td", {}, el("span", { class: "tag bad" }, "forfeited")) : null)))));
  }

  SRL.replayPage = (episode, turn, goto) => {
    const { steps, end } = views(episode), total = steps.length;
    let at = 0, whole = false;
    const stage = el("div", { class: "stage" }), told = el("output", { "aria-live": "polite" });
    const slider = el("input", { type: "range", min: "1", max: String(total + 1), "aria-label": "Step", oninput: () => show(Number(slider.value)) });
    const button = (sign, name, to) => el("button", { type: "button", "aria-label": name, onclick: () => show(to()) }, sign);
    const [first, back, next, last] = [
      button("«", "First step", () => 1), button("‹", "Previous step", () => at - 1),
      button("›", "Next step", () => at + 1), button("»", "The end", () => total + 1)];
    const all = el("input", { type: "checkbox", onchange: () => { whole = all.checked; show(at); } });

    function show(step) {
      at = Math.max(1, Math.min(total + 1, step || 1));
      const turns = at > total ? end : steps[at - 1];
      stage.replaceChildren(el("div", { class: "seats" }, ...turns.map((each) => seatCard(episode, each, whole || at === 1))));
      told.textContent = at > total ? "the end" : `step ${at} of ${total}`;
      slider.value = String(at);
      slider.setAttribute("aria-valuetext", told.textContent);
      [first.disabled, back.disabled, next.disabled, last.disabled] = [at === 1, at === 1, at > total, at > total];
      goto(at);
    }

    function key(event) {
      if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      if (event.target.closest("input, select, .scroll")) return; // these use the keys themselves
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 1, End: total + 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(to);
    }

    show(turn);
    const differs = episode.differs.length ? el("p", { class: "warning", role: "note" }, `This recording does not replay to what it claims: ${episode.differs.join(", ")}.${total ? " What is shown is the replay." : ""}`) : null;
    const nodes = [
      el("p", {}, el("a", { href: `#board=${episode.board}` }, `← ${episode.env_id}`)),
      el("h2", {}, episode.seats.join(" – ")),
      el("dl", { class: "facts" }, fact("environment", episode.env_id), fact("seed", episode.seed), fact("end", episode.termination), fact("match", episode.match)),
      differs, el("section", { class: "card", "aria-label": "Result" }, results(episode)),
      el("div", { class: "steps", role: "group", "aria-label": "Steps" }, first, back, slider, next, last, told, el("label", {}, all, "whole views"), el("span", { class: "quiet keys-hint" }, "arrow keys, Home, End")),
      stage];
    return { nodes, key, show };
  };
})();
