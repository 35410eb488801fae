"""A board as a repository: its site on top, and below `board` what anyone can verify."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from leaderboards.boards.archive import Board, read_board
from leaderboards.boards.verification import verified_path
from leaderboards.contents.fields import visible
from leaderboards.contents.intake import names_in
from leaderboards.pages.build import board_site, write_site
from srl_agents.cli.exchange.parcel import CARD, SENT, Parcel, below, private_paths
from srl_agents.own_folders import scratch
from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError

PLACE = "board"
"""Folder of the repository with what was signed."""
_TOP = ("*.json", "*.jsonl", "exploits/*/*.json")
_CARD = """\
---
title: {name}
sdk: static
app_file: index.html
tags: [srl, leaderboard]
---

# {name}

A board of multi-agent text games, signed by the key `{fingerprint}`. The page shows it; `{place}/` holds
the bundles behind every number. Check it:

```
{install}
srl pull {repository}
srl leaderboard verify {name}/{place}
srl leaderboard build --board {name}/{place} --fingerprint {fingerprint} --out site
```

{games}
"""


@contextmanager
def board_parcel(
    board: Path, repository: str, progress: Callable[[str, int, int], None] | None = None
) -> Iterator[Parcel]:
    """The parcel of a board; its site lies in a folder of this process for the length of the block.

    Args:
        board: its folder.
        repository: ``owner/name``, for the card.
        progress: called with a task's name, its finished part and its whole.

    Raises:
        ConfigError: nothing was published on the board.
        StoreError: the board is damaged.
    """
    found = read_board(board)
    if not found.groups or not found.fingerprint:
        raise ConfigError(
            f"{board} has no verified bundle yet: `srl leaderboard publish` adds some."
        )
    signed = {f"{PLACE}/{name}": path for name, path in below(board, _signed(board, found)).items()}
    with scratch("site") as site:
        again = f"srl leaderboard build --board {PLACE} --out site"
        data, episodes = board_site(board, command=again, progress=progress)
        write_site(data, site, episodes)
        names = [path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()]
        files = {**below(site, names), **signed, CARD: _card(found, repository).encode()}
        notes = [f"set aside, not sent: {visible(part.bundle)}" for part in found.set_aside]
        yield Parcel(kind="board", files=files, notes=(*notes, *private_paths(files)))


def _signed(board: Path, found: Board) -> list[str]:
    """The board's own files, its exploits, and the bundles that count."""
    names = [path.relative_to(board).as_posix() for pattern in _TOP for path in board.glob(pattern)]
    for group in found.groups:
        for entry in group.entries:
            folder = entry.bundle.folder
            names.append(verified_path(folder).relative_to(board).as_posix())
            names += [f"{folder.relative_to(board).as_posix()}/{name}" for name in names_in(folder)]
    return [name for name in names if SENT["board"].fullmatch(f"{PLACE}/{name}")]


def _card(found: Board, repository: str) -> str:
    games = [
        f"- {group.protocol.name}: {len(group.entries)} bundles, verified to "
        f"{', '.join(sorted({entry.level for entry in group.entries}))}"
        for group in found.groups
    ]
    return _CARD.format(
        name=repository.rpartition("/")[2],
        place=PLACE,
        fingerprint=found.fingerprint,
        install=install_command("cli"),
        repository=repository,
        games="\n".join(games),
    )
