"use strict";
// Where a row comes from: who submitted it, how it was played, how far it was checked. Opened from the agent's name.
(() => {
  const { el, whole, counted, plusMinus, fact } = SRL;

  const day = (text) => text.slice(0, 16).replace("T", " ") || "unknown";

  function attempts({ registered, owners, declared }) {
    return `${counted(registered, "registration", "registrations")} of this agent with the board, ${whole(declared)} declared by the submitter; its owner registered ${counted(owners, "agent", "agents")} here`;
  }

  const owner = ({ owner: key, maker }) => (maker ? `key ${key}, which the board lists for ${maker}` : `key ${key}`);

  function endpoint(found) {
    if (!found) return "no, played from weights or a program";
    const names = [found.dated_model || found.model, found.provider && `of ${found.provider}`, found.url && `at ${found.url}`];
    const thinking = found.thinking ? ` Asked with ${found.thinking}.` : "";
    return `yes, ${names.filter(Boolean).join(" ")}.${thinking} Its weights cannot be proven.`;
  }

  const known = (number) => number === null ? "unknown" : whole(number);

  function usage(used) {
    const ends = Object.entries(used.finishes).map(([finish, count]) => `${whole(count)} ${finish}`);
    const failed = Object.entries(used.failed_tries).map(([name, count]) => `${whole(count)} ${name}`);
    const time = used.seconds === null || used.seconds === undefined ? "" : ` ${whole(Math.round(used.seconds))} s in all for replies.`;
    const systems = used.fingerprints.length ? ` Systems: ${used.fingerprints.join(", ")}.` : "";
    return `${counted(used.replies, "reply", "replies")} (${ends.join(", ")}); tokens: ${known(used.prompt_tokens)} prompt, ${known(used.cached_tokens)} of them cached, ${known(used.completion_tokens)} reply, ${known(used.reasoning_tokens)} of them thoughts.` +
      (failed.length ? ` Failed tries: ${failed.join(", ")}.` : "") + time + systems;
  }

  function cost(used) {
    if (used.cost === null) return "unknown";
    return `${used.cost.toPrecision(3)} ${used.currency}, by prices of ${used.price_date} (${used.price_source})`;
  }

  function verification(row) {
    if (!row.level) return "not checked";
    const total = Object.values(row.levels).reduce((sum, n) => sum + n, 0);
    return `${row.level}, the lowest of ${counted(total, "match", "matches")}: ${SRL.levelsText(row)}`;
  }

  function origin(board, row) {
    const { entry } = row;
    if (!entry) {
      const why = board.protocol ? "A reference of the protocol, which plays in every bundle: it has no submitter." : "This board was made from a league store: the agent has no submitter and was not checked.";
      return [el("p", { class: "lead" }, why)];
    }
    return [
      el("dl", { class: "entry" },
        fact("submitted by", entry.submitter || "not stated"),
        entry.owner ? fact("owner", owner(entry)) : null,
        entry.attempts ? fact("attempts", attempts(entry.attempts)) : null,
        fact("endpoint", endpoint(entry.endpoint)),
        entry.endpoint?.usage ? fact("it reported", usage(entry.endpoint.usage)) : null,
        entry.endpoint?.usage ? fact("cost", cost(entry.endpoint.usage)) : null,
        fact("trained on", entry.training_data || "nothing is declared"),
        fact("played", `${day(entry.started)} with SRL ${entry.srl || "of unknown version"}`),
        fact("commit", entry.commit ? el("code", {}, entry.commit) : "unknown"),
        fact("checked", `${day(entry.verified)}, ${entry.signed ? "signed with the board's key" : "not signed"}`)),
      el("h4", {}, "Played with the command"), SRL.commands(entry.command || "unknown"),
      el("p", { class: "quiet" }, "Submitter, declared attempts, training data, commit and command are the submitter's own words. Levels are the board's.")];
  }

  SRL.origin = origin;
  SRL.verification = verification;
  SRL.showEntry = (board, row) => {
    const { metric } = board;
    const close = el("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => dialog.close() }, "✕");
    const dialog = el("dialog", { "aria-label": `Where ${row.agent} comes from`, onclose: () => dialog.remove(), onclick: (event) => { if (event.target === dialog) dialog.close(); } },
      el("div", { class: "inside" }, close, el("h3", {}, row.agent),
        el("dl", { class: "entry" },
          fact(metric.name, `${SRL.valueText(metric, row.value)} ${plusMinus(row.half_width, metric.digits)} ${metric.unit}, rank ${SRL.ranks(row)}`),
          fact("role", row.role), row.step ? fact("version", `step ${whole(row.step)} of ${row.lineage}`) : null,
          fact("games", `${counted(row.games, "game", "games")} on ${counted(row.clusters, "seed", "seeds")}`),
          board.protocol ? fact("exploitable", row.exploited ? SRL.exploitedText(row.exploited) : "not tried") : null,
          row.provisional.length ? fact("provisional", row.provisional.join("; ")) : null,
          fact("verified", verification(row)), row.level ? fact("which means", SRL.LEVELS[row.level].slice(4)) : null),
        ...origin(board, row)));
    document.body.append(dialog);
    dialog.showModal();
  };
})();
