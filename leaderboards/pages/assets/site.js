"use strict";
// Which page the address asks for: nothing, #board=NAME, #agent=KEY, or #match=ID&turn=N.
(() => {
  const { el } = SRL;
  const overview = JSON.parse(document.getElementById("overview").textContent);
  overview.all_games.agents = SRL.unpacked(overview.all_games);
  const content = document.getElementById("content"), menu = document.getElementById("boards");
  let asked = 0, replay = null;

  function show(nodes, title) {
    content.replaceChildren(...nodes.filter(Boolean));
    document.title = title ? `${title} · SRL leaderboards` : "SRL leaderboards";
    scrollTo(0, 0);
    stands();
  }

  // What the reader sees is the page of this address; until then the content is busy.
  function stands() {
    content.dataset.shown = location.hash.slice(1);
    content.removeAttribute("aria-busy");
  }

  async function route() {
    const wanted = new URLSearchParams(location.hash.slice(1)), number = ++asked;
    const [match, slug, agent] = [wanted.get("match"), wanted.get("board"), wanted.get("agent")];
    if (match && replay?.match === match) return replay.show(Number(wanted.get("turn")));
    content.setAttribute("aria-busy", "true");
    document.querySelector("dialog")?.close();
    replay?.stop();
    replay = null;
    menu.value = slug || "";
    try {
      if (match) await showMatch(match, Number(wanted.get("turn")), () => number === asked);
      else if (slug) await showBoard(slug, () => number === asked);
      else if (agent) await showAgent(agent, () => number === asked);
      else show(SRL.overviewPage(overview), "");
    } catch (error) {
      if (number === asked) show([el("div", { class: "card empty", role: "alert" }, error.message)], "Not found");
    }
  }

  async function showBoard(slug, current) {
    if (!overview.boards.some((board) => board.slug === slug)) throw new Error(`This site has no board ${slug}.`);
    const board = await SRL.load(`boards/${slug}`);
    if (current()) show(SRL.boardPage(board), board.protocol || board.env_id);
  }

  async function showAgent(key, current) {
    if (!overview.all_games.agents.some((row) => row.id === key)) throw new Error(`This site has no page of an agent ${key}.`);
    const agent = await SRL.load(`agents/${key}`);
    if (current()) show(SRL.agentPage(agent, overview.all_games), agent.agent);
  }

  async function showMatch(match, turn, current) {
    if (!/^[0-9a-f]+$/.test(match)) throw new Error(`${match} is not a match id.`);
    const episode = await SRL.load(`episodes/${match}`);
    if (!current()) return;
    const page = SRL.replayPage(episode, turn, (step) => {
      history.replaceState(null, "", `#match=${match}&turn=${step}`);
      if (replay?.match === match) stands();
    });
    replay = { match, ...page };
    menu.value = episode.board;
    show(page.nodes, episode.seats.join(" – "));
  }

  menu.append(el("option", { value: "" }, "all environments"), ...overview.boards.map((board) => el("option", { value: board.slug }, board.name)));
  menu.addEventListener("change", () => { location.hash = menu.value ? `board=${menu.value}` : ""; });
  document.querySelector(".page-header").append(SRL.themeSwitch());
  document.getElementById("command").textContent = overview.command;
  document.getElementById("digest").textContent = overview.content_sha256.slice(0, 16);
  document.getElementById("key").textContent = overview.fingerprint;
  document.getElementById("signed").hidden = !overview.fingerprint;
  addEventListener("hashchange", route);
  document.addEventListener("keydown", (event) => replay?.key(event));
  route();
})();
