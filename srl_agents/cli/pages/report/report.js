"use strict";
// Charts of training runs: one line per learner, seeds of one condition thin behind their mean.
(() => {
  const { el, svg, short, signed, whole, percent, plusMinus, scroller, chart } = SRL;
  const data = JSON.parse(document.getElementById("data").textContent);
  const SMOOTHING = [[1, "as measured"], [5, "mean of 5"], [20, "mean of 20"]];
  const OUTCOMES = new Set(["Reward", "Reward by component", "Against the start and bots", "By game", "By seat"]); // the other sections are folded
  const opened = new Set(); // folded sections that the reader opened
  const content = document.getElementById("content");
  const place = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-");

  function smoothed(values, over) { // mean of the last `over` values
    if (over === 1) return values;
    return values.map((value, k) => {
      if (value === null) return null;
      const some = values.slice(Math.max(0, k - over + 1), k + 1).filter((y) => y !== null);
      return some.reduce((sum, y) => sum + y, 0) / some.length;
    });
  }

  function mean(lines) { // over runs, at updates that all of them have
    const shared = lines[0].x.filter((x) => lines.every((line) => line.x.includes(x)));
    const at = lines.map((line) => new Map(line.x.map((x, k) => [x, line.y[k]])));
    return { x: shared, y: shared.map((x) => {
      const values = at.map((column) => column.get(x)).filter((y) => y !== null);
      return values.length ? values.reduce((sum, y) => sum + y, 0) / values.length : null;
    }) };
  }

  // Everything that has the metric, as { key, run, x, y, low, high }.
  function measured(runs, { metric, spread }, over) {
    const many = new Set(runs.map((run) => run.condition)).size > 1;
    const found = [];
    for (const run of runs) {
      for (const [learner, columns] of [["run", run.own], ...Object.entries(run.learners)]) {
        const column = columns[metric];
        if (!column) continue;
        const role = run.roles[learner];
        const name = role && role !== "main" ? `${learner} (${role})` : learner;
        const key = many ? `${name}, ${runs.find((other) => other.condition === run.condition).label}` : name;
        const y = smoothed(column.y, over), line = { key, run: run.label, x: column.x, y };
        const wide = columns[spread] && new Map(columns[spread].x.map((x, k) => [x, columns[spread].y[k]]));
        if (wide) {
          const edge = (way) => line.x.map((x, k) => (y[k] === null || (wide.get(x) ?? null) === null ? null : y[k] + way * wide.get(x)));
          [line.low, line.high] = [edge(-1), edge(1)];
        }
        found.push(line);
      }
    }
    return found;
  }

  function linesOf(runs, panel, over) {
    const found = measured(runs, panel, over), keys = [...new Set(found.map((line) => line.key))];
    return keys.flatMap((key, colour) => {
      const own = found.filter((line) => line.key === key);
      if (own.length === 1) return [{ ...own[0], label: key, colour }];
      return [...own.map((line) => ({ key, x: line.x, y: line.y, label: `${key}, ${line.run}`, colour, faint: true })),
        { key, label: key, colour, ...mean(own) }];
    });
  }

  function constant(lines) { // every line has one value at all of its updates, so a curve would show nothing
    const same = (values) => {
      const known = values.filter((y) => y !== null);
      return known.length > 1 && Math.max(...known) - Math.min(...known) <= 1e-9 * Math.abs(known[0]);
    };
    return lines.every((line) => same(line.y) && (!line.low || same(line.low)));
  }

  function valuesOf(lines) { // "0.1", or by line where they differ
    const value = (line) => short(line.y.find((y) => y !== null));
    const shown = lines.filter((line) => !line.faint), all = new Set(shown.map(value));
    return all.size === 1 ? [...all][0] : shown.map((line) => `${line.label} ${value(line)}`).join(", ");
  }

  function section(env, heading, ...parts) {
    const id = place(`${env} ${heading}`), attributes = { class: "section", id, "aria-label": `${env}: ${heading}` };
    if (OUTCOMES.has(heading)) return el("section", attributes, el("h3", {}, heading), ...parts);
    const folded = el("details", attributes, el("summary", {}, el("h3", {}, heading)), ...parts);
    folded.open = opened.has(id);
    folded.addEventListener("toggle", () => (folded.open ? opened.add(id) : opened.delete(id)));
    return folded;
  }

  function sections(over) {
    return data.environments.flatMap(({ env, sections: parts }) => {
      const runs = data.runs.filter((run) => run.env === env);
      return [el("h2", { id: place(env) }, env), ...parts.map(({ heading, charts }) => {
        const panels = charts.map((panel) => ({ panel, lines: linesOf(runs, panel, over) }));
        const [flat, drawn] = [panels.filter(({ lines }) => constant(lines)), panels.filter(({ lines }) => !constant(lines))];
        return section(env, heading,
          el("div", { class: "charts" }, ...drawn.map(({ panel, lines }) => el("div", { class: "card" },
            chart({ title: panel.metric, help: panel.help || null, about: panel.help, lines, xName: "update" })))),
          flat.length ? el("p", { class: "quiet constants" }, "Constant: ",
            ...flat.flatMap(({ panel, lines }, k) => [k ? " · " : "", el("span", { tip: panel.help || null }, `${panel.metric} ${valuesOf(lines)}`)])) : null);
      })];
    });
  }

  function learned() { // each learner's last version against the one that it started as
    const rows = data.runs.flatMap((run) => run.tables.filter((found) => !found.partners.length).flatMap((found) => found.gains.map((gain) => ({ run, found, gain }))));
    const verdict = ({ estimate, half_width: width }) => (width === null ? "unknown: one seed has no interval" : Math.abs(estimate) <= width ? "not resolved" : estimate > 0 ? "yes, better" : "no, worse");
    const why = data.runs.some((run) => run.tables.some((found) => found.partners.length))
      ? "All seats are paid alike, so no learner has a result against its start; the league's tables compare returns with partners."
      : "Not measured yet: the final round robin compares each learner with its start.";
    return el("section", { class: "section card", id: "learned", "aria-label": "Did it learn?" }, el("h2", {}, "Did it learn?"),
      rows.length ? el("p", { class: "quiet" }, "Points per game against the start, in games of one seat the difference of returns; 95 % intervals, clustered by seed.") : null,
      rows.length ? scroller("Each learner against its start", el("table", { class: "plain" },
        el("thead", {}, el("tr", {}, ...["Learner", "Verdict", "Difference to its start", "Game", ...(data.runs.length > 1 ? ["Run"] : []), "Seeds"].map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, ...rows.map(({ run, found, gain }) => el("tr", {}, el("th", { scope: "row", class: "clip", title: gain.agent }, gain.agent.split("-")[0]),
          el("td", { class: verdict(gain).startsWith("yes") ? "better" : null }, verdict(gain)),
          el("td", {}, `${signed(gain.estimate, 3)} ${plusMinus(gain.half_width, 3)}`),
          el("td", {}, found.title), ...(data.runs.length > 1 ? [el("td", {}, run.label)] : []), el("td", {}, whole(gain.seeds))))))) : el("p", {}, why));
  }

  function table(found) {
    const ranks = ([best, worst]) => (best === worst ? String(best) : `${best}–${worst}`);
    const gains = new Map(found.gains.map((gain) => [gain.agent, gain]));
    const against = (agent) => {
      const gain = gains.get(agent);
      if (!gain) return "";
      const better = gain.half_width !== null && gain.estimate > gain.half_width;
      return el("span", { class: better ? "better" : null }, `${signed(gain.estimate, 3)} ${plusMinus(gain.half_width, 3)}${better ? ", better" : ", not resolved"}`);
    };
    return scroller(`Ratings in ${found.title}`, el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...["Rank", "Agent", "Elo", "Games", "Score", "Against its start"].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...found.rows.map((row) => el("tr", {}, el("td", {}, ranks(row.ranks)), el("th", { scope: "row", class: "clip", title: row.agent }, row.agent),
        el("td", {}, `${signed(row.elo)} ${plusMinus(row.half_width)}`), el("td", {}, whole(row.games)), el("td", {}, percent(row.score, 1)), el("td", {}, against(row.agent)))))));
  }

  function soloTable(found) { // tasks of one seat: no opponents, so no Elo
    const gains = new Map(found.gains.map((gain) => [gain.agent, gain]));
    const gained = (agent) => {
      const gain = gains.get(agent);
      return gain === undefined ? "–" : `${signed(gain.estimate, 3)} ${plusMinus(gain.half_width, 3)}, ${gain.seeds} seeds`;
    };
    return scroller(`Returns in ${found.title}`, el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...["Agent", "Return by itself", "Games", "Against its start"].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...found.alone.map((row) => el("tr", {}, el("th", { scope: "row", class: "clip", title: row.agent }, row.agent),
        el("td", {}, `${row.return[0].toFixed(3)} ${plusMinus(row.return[1], 3)}`), el("td", {}, whole(row.games)), el("td", {}, gained(row.agent)))))));
  }

  function partnersTable(found) { // all seats are paid alike, so the measure is the return with partners that training never met
    const cell = (value) => el("td", {}, value === null ? "" : `${value[0].toFixed(3)} ${plusMinus(value[1], 3)}`);
    return scroller(`Returns with partners in ${found.title}`, el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...["Agent", "With partners new to it", "With all other lineages", "With itself"].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...found.partners.map((row) => el("tr", {}, el("th", { scope: "row", class: "clip", title: row.agent }, row.agent),
        cell(row.zero_shot), cell(row.cross_play), cell(row.self_play))))));
  }

  function outsideTable(rows) {
    const better = (row) => row.gain_half_width !== null && row.gain > row.gain_half_width;
    return scroller("Measured outside", el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...["Task", "Agent", "Score", "Samples", "Against the first"].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, el("td", {}, row.task), el("th", { scope: "row", class: "clip", title: row.agent }, row.agent),
        el("td", {}, row.score === null ? "unknown" : `${row.score.toFixed(3)} ${plusMinus(row.half_width, 3)}`), el("td", {}, whole(row.samples)),
        el("td", {}, row.gain === null ? "" : el("span", { class: better(row) ? "better" : null }, `${signed(row.gain, 3)} ${plusMinus(row.gain_half_width, 3)}`)))))));
  }

  function transferTable(rows) {
    const signed = (value) => (value === null ? "?" : (value > 0 ? "+" : "") + value.toFixed(3));
    return scroller("What learners gained over their start, by game", el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...["learner", "game", "mode", "trained", "start", "end", "gain", "95 %", "seeds"].map((name) => el("th", {}, name)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...[
        row.learner.split("-")[0], row.game, row.mode, row.trained ? "yes" : "no", row.start_score.toFixed(3), row.score.toFixed(3),
        signed(row.gain), `${signed(row.low)} to ${signed(row.high)}`, String(row.seeds),
      ].map((text) => el("td", {}, text)))))));
  }

  function transfer() {
    const shown = data.runs.filter((run) => run.transfer.length);
    return shown.length ? [el("section", { class: "section", id: "transfer" }, el("h2", {}, "Transfer between games"),
      ...shown.map((run) => el("div", { class: "card" }, data.runs.length > 1 ? el("h3", {}, run.label) : null, transferTable(run.transfer))))] : [];
  }

  function outside() {
    const shown = data.runs.filter((run) => run.outside.length);
    return shown.length ? [el("section", { class: "section", id: "outside" }, el("h2", {}, "Measured outside"),
      ...shown.map((run) => el("div", { class: "card" }, data.runs.length > 1 ? el("h3", {}, run.label) : null, outsideTable(run.outside))))] : [];
  }

  function tables() {
    const shown = data.runs.filter((run) => run.tables.length);
    return shown.length ? [el("section", { class: "section", id: "league" }, el("h2", {}, "League"),
      ...shown.flatMap((run) => run.tables.map((found) => el("div", { class: "card" },
        el("h3", {}, `${found.title}, ${found.schedule}${data.runs.length > 1 ? `: ${run.label}` : ""}`), found.alone.length ? soloTable(found) : found.partners.length ? partnersTable(found) : table(found)))))] : [];
  }

  const gb = (bytes) => (bytes === null ? "" : (bytes / 1e9).toFixed(2));

  function phaseBars({ phases, budget, update }) { // one row per phase: before and peak as bars, after and plan as marks
    const [left, wide] = innerWidth < 700 ? [84, 360] : [130, 640], row = 26, high = row * phases.length + 34;
    const most = 1.05 * Math.max(budget || 0, ...phases.flatMap((one) => [one.peak, one.planned || 0]));
    const x = (bytes) => left + (wide - left - 60) * bytes / most;
    const rows = phases.flatMap((one, k) => {
      const y = k * row + 6;
      const mark = (name, bytes) => svg("line", { class: name, x1: x(bytes), x2: x(bytes), y1: y - 2, y2: y + 18 });
      return [
        svg("text", { x: left - 8, y: y + 13, "text-anchor": "end" }, one.phase),
        svg("rect", { class: "peak", x: left, y, width: x(one.peak) - left, height: 16 }),
        svg("rect", { class: "before", x: left, y: y + 4, width: x(one.before) - left, height: 8 }),
        mark("after", one.after),
        ...(one.planned === null ? [] : [mark("planned", one.planned)]),
        svg("text", { class: "size", x: x(Math.max(one.peak, one.planned || 0)) + 6, y: y + 13 }, `${gb(one.peak)} GB`),
      ];
    });
    const line = budget === null ? [] : [
      svg("line", { class: "budget", x1: x(budget), x2: x(budget), y1: 0, y2: high - 24 }),
      svg("text", { class: "budget", x: x(budget), y: high - 8, "text-anchor": "end" }, `budget ${gb(budget)} GB`)];
    return svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `Memory by phase of update ${update}; the table has the numbers.` }, ...rows, ...line);
  }

  function memory() {
    const shown = data.runs.filter((run) => run.memory);
    const headings = ["Phase", "Before, GB", "Peak, GB", "After, GB", "Planned, GB"];
    return shown.length ? [el("section", { class: "section", id: "memory" }, el("h2", {}, "Memory by phase"),
      el("p", { class: "lead" }, "Wide bars: the most in a phase; narrow ones: when it began. Marks: solid, when it was over; dotted, as planned. A phase within another is listed before it."),
      ...shown.map((run) => el("div", { class: "card phases" }, el("h3", {}, `${data.runs.length > 1 ? `${run.label}: ` : ""}update ${run.memory.update}`),
        el("p", { class: "quiet" }, run.memory.planned_for), scroller("Memory by phase", phaseBars(run.memory)),
        scroller("Memory in numbers", el("table", { class: "plain" },
          el("thead", {}, el("tr", {}, ...headings.map((text) => el("th", { scope: "col" }, text)))),
          el("tbody", {}, ...run.memory.phases.map((one) => el("tr", {}, el("th", { scope: "row" }, one.phase),
            ...[one.before, one.peak, one.after, one.planned].map((bytes) => el("td", {}, gb(bytes)))))))))))] : [];
  }

  const head = data.runs.map((run) => el("section", { class: "card run", "aria-label": run.label }, el("h2", {}, run.label),
    el("dl", { class: "facts" }, ...run.facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))))));
  const contents = el("nav", { class: "contents", "aria-label": "Sections" },
    ...(data.runs.some((run) => run.tables.length) ? [el("a", { href: "#league" }, "League")] : []),
    ...data.environments.flatMap(({ env, sections: parts }) => parts.map((part) => el("a", { href: `#${place(`${env} ${part.heading}`)}` }, data.environments.length > 1 ? `${env}: ${part.heading}` : part.heading))),
    ...(data.runs.some((run) => run.memory) ? [el("a", { href: "#memory" }, "Memory by phase")] : []),
    ...(data.runs.some((run) => run.transfer.length) ? [el("a", { href: "#transfer" }, "Transfer")] : []),
    ...(data.runs.some((run) => run.outside.length) ? [el("a", { href: "#outside" }, "Measured outside")] : []));
  const curves = el("div");
  const choose = SRL.choice("Smoothing", SMOOTHING, 1, (over) => curves.replaceChildren(...sections(over)));
  curves.append(...sections(1));
  content.replaceChildren(learned(), ...head, el("div", { class: "tools" }, choose, contents), ...tables(), ...transfer(), ...outside(), curves, ...memory());
  document.querySelector(".page-header").append(SRL.themeSwitch());
  document.getElementById("command").textContent = data.command;
  document.title = `${data.runs.map((run) => run.label).join(", ")} · SRL training report`;
  function follow() { // a link to a folded section opens it
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (!target) return;
    if (target.tagName === "DETAILS") target.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", follow);
  follow();
  let folded = []; // paper folds nothing
  addEventListener("beforeprint", () => { folded = [...document.querySelectorAll("details:not([open])")]; folded.forEach((part) => { part.open = true; }); SRL.drawAll(); });
  addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
})();
