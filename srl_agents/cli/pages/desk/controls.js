"use strict";

// Boards, heaps, fields and cards to click, read from the text that the seat sees; and a button for every legal
// move that is known. A game that is not recognised keeps its text and the box for words.
window.Controls = (() => {
  const MOST_BUTTONS = 80, MOST_OBJECTS = 400, MOST_TEXT = 20000;

  function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  }

  const move = (body, label, send, attributes = {}) => el("button", { type: "button", class: "move", "data-move": body, onclick: () => send(body), ...attributes }, label);
  const group = (name, ...children) => el("div", { role: "group", "aria-label": name, class: "controls" }, ...children);

  // Columns of a board of marks; each is a button that drops a piece.
  function columns(text, send) {
    const found = /\n((?:[.XO]+\n)+)(\d+)\n[^]*?Open columns: ([\d ]+)/.exec(text);
    if (!found) return null;
    const rows = found[1].trimEnd().split("\n"), open = new Set(found[3].trim().split(/\s+/));
    const kinds = { X: "yours", O: "theirs", ".": "hole" };
    return group("Board: choose a column", el("div", { class: "board" }, ...[...rows[0]].map((_, at) => {
      const name = String(at + 1), marks = rows.map((row) => row[at]), taken = marks.filter((mark) => mark !== ".").length;
      return move(name, el("span", { class: "stack", "aria-hidden": "true" }, ...marks.map((mark) => el("span", { class: `cell ${kinds[mark]}` }, mark === "." ? "" : mark)), el("span", { class: "under" }, name)), send,
        { class: "move column", disabled: !open.has(name), "aria-label": `Column ${name}, ${taken} of ${rows.length} filled` });
    })));
  }

  // Heaps of objects; a click takes that object and all to its right.
  function heaps(text, send) {
    const found = [...text.matchAll(/^Heap (\d+): o* ?\((\d+)\)$/gm)].map(([, heap, size]) => [heap, Number(size)]);
    if (!found.length || found.reduce((sum, [, size]) => sum + size, 0) > MOST_OBJECTS) return null;
    return group("Heaps: choose how many to take", ...found.map(([heap, size]) => el("div", { class: "heap" }, el("span", { class: "name" }, `Heap ${heap}`),
      ...Array.from({ length: size }, (_, at) => move(`${heap} ${size - at}`, el("span", { "aria-hidden": "true" }, String(size - at)), send, { class: "move object", "aria-label": `Take ${size - at} of heap ${heap}` })))));
  }

  // Soldiers to spread over fields; sent when none is left.
  function spread(text, send) {
    const asked = /send (\d+) soldiers to (\d+) fields/.exec(text), worth = [...text.matchAll(/^Field values: ([\d ]+)$/gm)].pop();
    if (!asked || !worth) return null;
    const total = Number(asked[1]), values = worth[1].trim().split(/\s+/);
    const left = el("output", { class: "left" }), ready = el("button", { type: "button", class: "move", onclick: () => send(inputs.map((input) => Number(input.value)).join(" ")) }, "Send the soldiers");
    const inputs = values.map((value, at) => el("input", { type: "number", min: 0, max: total, step: 1, value: 0, inputmode: "numeric", "aria-label": `Soldiers for field ${at + 1}, worth ${value}`, oninput: count }));
    function count() {
      const numbers = inputs.map((input) => Number(input.value)), rest = total - numbers.reduce((sum, one) => sum + one, 0);
      left.textContent = rest === 0 ? "All are placed." : rest > 0 ? `${rest} left to place` : `${-rest} too many`;
      ready.disabled = rest !== 0 || numbers.some((one) => !Number.isInteger(one) || one < 0);
    }
    count();
    return group("Fields: place your soldiers", el("div", { class: "fields" }, ...values.map((value, at) => el("label", { class: "field" }, el("span", {}, `Field ${at + 1}`), el("b", {}, `worth ${value}`), inputs[at]))), el("p", {}, left, " ", ready));
  }

  // The card of one's own in a game of cards, beside the words that may be said.
  function words(text, send) {
    const line = [...text.matchAll(/^.*Possible: (.+)$/gm)].pop();
    if (!line) return null;
    const card = [...text.matchAll(/Your card: (\w+)/g)].pop();
    const options = line[1].replace(/\.$/, "").split(/, | or /).map((word) => word.trim()).filter(Boolean);
    if (options.some((word) => !/^[\w -]+$/.test(word))) return null;
    return group("Possible moves", card ? el("span", { class: "card-face", role: "img", "aria-label": `Your card: ${card[1]}` }, card[1]) : null, ...options.map((word) => move(word, word, send)));
  }

  // Hands of cards: play or discard one's own, give clues on another's.
  function hands(text, send) {
    const turn = /^Your turn: (.+)$/m.exec(text);
    const own = /Your cards, as far as you know:\n((?:\d+: .+\n)+)/.exec(text);
    if (!turn || !own) return null;
    const may = (word) => turn[1].replace(/\(.*\)/, "").includes(word);
    const cards = own[1].trimEnd().split("\n").map((row) => /^(\d+): (.+)$/.exec(row));
    const others = [...text.matchAll(/^(player_\d+)'s cards.*:\n((?:\d+: \w+ \d.*\n)+)/gm)].map(([, name, rows]) => {
      const seen = rows.trimEnd().split("\n").map((row) => /^\d+: (\w+) (\d)/.exec(row));
      return [name, seen.map(([, colour, rank]) => `${colour} ${rank}`), [...new Set(seen.map((card) => card[1]))], [...new Set(seen.map((card) => card[2]))].sort()];
    });
    return group("Cards", ...cards.map(([, number, known]) => el("div", { class: "hand" }, el("span", { class: "card-face", role: "img", "aria-label": `Your card ${number}: ${known}` }, known.replace(/any colour, any rank/, "?")),
      may("play") ? move(`play ${number}`, `Play ${number}`, send) : null, may("discard") ? move(`discard ${number}`, `Discard ${number}`, send) : null)),
    ...(may("clue") ? others.map(([name, seen, colours, ranks]) => el("div", { class: "hand" }, el("span", { class: "name" }, `${name}: ${seen.join(", ")}`),
      ...[...colours, ...ranks].map((what) => move(`clue ${name} ${what}`, `Clue ${what}`, send)))) : []));
  }

  // Every legal move that the table knows, as a button.
  function listed(legal, send) {
    if (!legal?.length || legal.length > MOST_BUTTONS || legal.some((body) => body.length > 60)) return null;
    return group("Legal moves", ...legal.map((body) => move(body, body, send)));
  }

  const GAMES = [["connect four", columns], ["nim", heaps], ["blotto", spread], ["hanabi", hands], ["", words]];

  // What to click for a text, or null; `send` gets the body of the move.
  return {
    of(text, legal, send) {
      if (text.length > MOST_TEXT) return listed(legal, send);  // longer than any game's
      for (const [, make] of GAMES) {
        const node = make(text, send);
        if (node) return node;
      }
      return listed(legal, send);
    },
    el,
  };
})();
