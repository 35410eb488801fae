"""Write a site: one page, scripts and styles beside it, and one data file per board and episode.

Names and replies come from anywhere. They travel as data and reach the page as text nodes, and the
content policy admits only the files of the site. A page that was opened from disk may run scripts
but not fetch files, so data files are calls with one JSON argument.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Any

from leaderboards.names import page_labels, relabelled
from leaderboards.pages.preview import preview, summary
from srl_agents.cli.pages.shared import embedded_json, shared_files
from srl_envs.errors import StoreError, file_fault

_ASSETS = files("leaderboards.pages") / "assets"
_SCRIPTS = (
    "loading.js", "grid.js", "ranking.js", "matrices.js", "board.js", "entry.js", "sentences.js",
    "standing.js", "overview.js", "agent.js", "drawing.js", "replay.js", "site.js",
)  # fmt: skip
FIRST_AGENTS = 200
"""Agents on the first page, and with a page of their own: the best."""
MATRIX_AGENTS = 24
"""Models, and bots, in the first page's matrix of agents by games."""
SAMPLES = 6
"""Matches per game on an agent's page."""
_TOP = 3
_NOT_ON_THE_FIRST_PAGE = ("seeds", "matches", "replies_per_game")


def write_site(
    data: Mapping[str, Any], out: Path, episodes: Iterable[Mapping[str, Any]] = ()
) -> Path:
    """Write everything; files of an earlier site in the same folder are replaced.

    Args:
        data: from `leaderboards.pages.build.site_data`.
        out: folder of the site; made if absent.
        episodes: from `leaderboards.pages.episodes`, one file each; written as they come.

    Returns:
        The page to open.

    Raises:
        StoreError: the folder cannot be written.
    """
    names = page_labels(data)
    try:
        for name in ("assets", "boards", "agents", "episodes"):
            (out / name).mkdir(parents=True, exist_ok=True)
        styles, scripts = _write_assets(out)
        for board in data["boards"]:
            _write(
                out / "boards" / f"{board['slug']}.js",
                _call(f"boards/{board['slug']}", relabelled(board, names)),
            )
        for agent in data["all_games"]["agents"][:FIRST_AGENTS]:
            name = f"agents/{agent['id']}"
            _write(
                out / f"{name}.js", _call(name, relabelled(_agent(agent, data["boards"]), names))
            )
        for episode in episodes:
            name = f"episodes/{episode['match']}"
            _write(out / f"{name}.js", _call(name, relabelled(episode, names)))
        text = json.dumps(data, indent=1, sort_keys=True, allow_nan=False)
        _write(out / "data.json", text + "\n")
        links = "\n".join(f'<link rel="stylesheet" href="assets/{name}">' for name in styles)
        loads = "\n".join(f'<script src="assets/{name}"></script>' for name in scripts)
        first = relabelled(overview(data), names)
        (out / "preview.png").write_bytes(preview(first))
        shown = Template((_ASSETS / "index.html").read_text(encoding="utf-8")).substitute(
            links=links,
            scripts=loads,
            overview=embedded_json(first),
            summary=summary(first),
        )
        _write(out / "index.html", shown)
    except OSError as error:
        raise StoreError(f"site {out}: {file_fault(error, out)}.") from error
    return out / "index.html"


def overview(data: Mapping[str, Any]) -> dict[str, Any]:
    """What the first page shows of all boards."""
    return {
        "command": data["command"],
        "content_sha256": data["content_sha256"],
        "fingerprint": data["fingerprint"],
        "changes": data["changes"],
        "set_aside": data["set_aside"],
        "differences": data.get("differences", []),
        "agents": len({row["agent"] for board in data["boards"] for row in board["agents"]}),
        "boards": [_board_summary(board) for board in data["boards"]],
        "all_games": _first_screen(data["all_games"], data["boards"]),
    }


def _board_summary(board: Mapping[str, Any]) -> dict[str, Any]:
    rows = board["agents"]
    return {
        **{key: board[key] for key in ("slug", "mode", "metric", "matches", "clusters")},
        "name": _name(board),
        "summary": board["summary"],
        "agents": len(rows),
        "top": [{key: row[key] for key in ("agent", "value", "half_width")} for row in rows[:_TOP]],
        "shared_first": sum(row["best_rank"] == 1 for row in rows),
        "levels": dict(Counter(row["level"] for row in rows if row["level"])),
        "episodes": len(board["episodes"]),
        "hackability": board["hackability"],
        "earlier": len(board.get("earlier", [])),
    }


def _first_screen(found: Mapping[str, Any], boards: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The rating over all games, as short as it can be: as many agents as the page shows, each key once."""
    names = {board["slug"]: _name(board) for board in boards}
    agents = [{**row} for row in found["agents"][:FIRST_AGENTS]]
    doubts = sorted({doubt for row in agents for doubt in row["provisional"]})
    for k, row in enumerate(agents):
        for key in _NOT_ON_THE_FIRST_PAGE:
            del row[key]
        row["provisional"] = [doubts.index(doubt) for doubt in row["provisional"]]
        row["places"] = _short(row["places"]) if k < MATRIX_AGENTS else None
    return {
        **found,
        "games": [{**game, "name": names[game["slug"]]} for game in found["games"]],
        "agents": {"keys": [*agents[0]], "rows": [[*row.values()] for row in agents]}
        if agents
        else {"keys": [], "rows": []},
        "doubts": doubts,
        "more_agents": len(found["agents"]) - len(agents),
        "bots": [
            {"agent": row["agent"], "places": _short(row["places"])}
            for row in found["bots"][:MATRIX_AGENTS]
        ],
    }


def _short(places: Iterable[list[Any] | None]) -> list[list[Any] | None]:
    """Places without what only an agent's own page shows: the Elo given clean play."""
    return [None if place is None else place[:-2] for place in places]


def _agent(agent: Mapping[str, Any], boards: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The page of one agent: its rating over all games, and of each game its row and some matches."""
    places = iter(agent["places"])
    games = []
    for board in boards:
        place = next(places) if board["agents"] else None
        row = next((row for row in board["agents"] if row["agent"] == agent["agent"]), None)
        if place is None or row is None:
            continue
        own = [found for found in board["episodes"] if agent["agent"] in found["seats"]]
        games.append(
            {
                **{key: board[key] for key in ("slug", "env_id", "mode", "metric")},
                "protocol": board.get("protocol", ""),
                "name": _name(board),
                "of": len(board["agents"]),
                "place": place,
                "row": row,
                "episodes": own[:SAMPLES],
            }
        )
    return {**{key: value for key, value in agent.items() if key != "places"}, "games": games}


def _name(board: Mapping[str, Any]) -> str:
    """Line with a board's protocol, or with its environment and options."""
    return board.get("protocol") or " ".join(filter(None, [board["env_id"], board["options"]]))


def _write_assets(out: Path) -> tuple[list[str], list[str]]:
    """Copy styles, scripts and licences; the names of those that the page loads, in order."""
    shared = shared_files()
    own = [_ASSETS / name for name in (*_SCRIPTS, "site.css")]
    loaded = [*(file for file in shared.loaded if file not in shared.plotting), *own]
    for file in [*loaded, *shared.plotting, *shared.beside]:
        _write(out / "assets" / file.name, file.read_text(encoding="utf-8"))
    return _named(loaded, ".css"), _named(loaded, ".js")


def _named(loaded: Iterable[Traversable], suffix: str) -> list[str]:
    return [file.name for file in loaded if file.name.endswith(suffix)]


def _call(name: str, value: Mapping[str, Any]) -> str:
    return f"SRL.receive({embedded_json(name)},{embedded_json(value)});\n"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
