"use strict";
// One sentence on a match: who won or earned what, in how many moves.
(() => {
  const { counted } = SRL;
  const LISTED = new Intl.ListFormat("en-GB");

  const earned = (outcome) => ((1 + outcome) / 2).toFixed(2);
  const moves = (r) => counted(r.steps, "move", "moves");

  // Names in the order of seats; an agent on several seats is named once.
  const distinct = (seats) => [...new Set(seats)];

  function ended(r) {
    const gaveUp = distinct(r.forfeited.map((seat) => r.seats[seat]));
    const others = distinct(r.seats).filter((name) => !gaveUp.includes(name));
    return `${LISTED.format(gaveUp)} forfeited${others.length ? ` against ${LISTED.format(others)}` : ""} after ${moves(r)}`;
  }

  function won(r) {
    const [one, other] = r.outcomes[0] < r.outcomes[1] ? [r.seats[1], r.seats[0]] : r.seats;
    return r.outcomes[0] === r.outcomes[1] ? `${one} and ${other} drew after ${moves(r)}` : `${one} beat ${other} in ${moves(r)}`;
  }

  function paid(r, mode) {
    const names = distinct(r.seats), alike = r.outcomes.every((x) => x === r.outcomes[0]);
    if (names.length === 1) return `${names[0]} earned ${LISTED.format(alike ? [earned(r.outcomes[0])] : r.outcomes.map(earned))} with itself in ${moves(r)}`;
    if (mode === "cooperative" && alike) return `${LISTED.format(names)} earned ${earned(r.outcomes[0])} together in ${moves(r)}`;
    return `${LISTED.format(r.seats.map((name, seat) => `${name} earned ${earned(r.outcomes[seat])}`))} in ${moves(r)}`;
  }

  // r: a line of a board's episodes
  SRL.sentence = (r, mode) => {
    const text = r.forfeited.length ? ended(r) : mode === "competitive" && r.seats.length === 2 ? won(r) : paid(r, mode);
    const cut = r.termination === "truncated" ? ", cut by the limit of moves" : "";
    return `${text}${cut}${r.invalid ? `; ${counted(r.invalid, "reply was", "replies were")} refused` : ""}.`;
  };
})();
