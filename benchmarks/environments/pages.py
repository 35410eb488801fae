"""One page per environment in ``docs/environments``, written from the code's docstrings and data.

    python -m benchmarks.environments.pages [ENV ...]

A page holds the docstring of the game's module, its options, bots and payments, what the last published
attack came to, and the start of an episode between bots. Nothing in it is written by hand. Pages of
environments are built and not committed; the list of them and the table of hackability are committed, and a
test fails while they differ from the code.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import srl_envs
from srl_agents.cli.envs import SHELL_OPTIONS
from srl_agents.cli.views.transcript import news
from srl_envs.api.episode import Step, Transcript
from srl_envs.core import Game, seat_name
from srl_envs.foreign_code import load_entry_point
from srl_envs.redteam import published, table
from srl_envs.registry import EnvSpec

FOLDER = Path(__file__).parents[2] / "docs/environments"
SAMPLE_SEED = 0
SAMPLE_BOTS = ("strong", "middle")
"""Of even and of odd seats."""
SAMPLE_TURNS = 8
"""Turns of an episode after which no further step is shown; then its end."""
SHOWN_CHARS = 1800
"""Of one text after the first."""
FENCE = "````"
"""Longer than what a reply may hold by custom, which is three."""


def built_in() -> list[EnvSpec]:
    """The environments that have a page; those of other packages have theirs elsewhere."""
    specs = map(srl_envs.spec, srl_envs.list_envs())
    return [spec for spec in specs if spec.entry_point.startswith("srl_envs.")]


def pages() -> dict[str, str]:
    """File name -> text, for all built-in environments and the list of them."""
    specs = built_in()
    return {
        "README.md": index(specs),
        "hackability.md": published.page(),
        **{f"{spec.id}.md": page(spec) for spec in specs if spec.is_installed},
    }


def index(specs: Sequence[EnvSpec]) -> str:
    """The list of all pages."""
    rows = [
        f"| `{s.id}` | {s.mode} | {seats(s)} | {s.summary} | {', '.join(s.bots)} |" for s in specs
    ]
    return "\n".join(
        [
            "# Environments",
            "",
            f"All {len(specs)} are made by `srl_envs.make(id)` and played by `srl play ID POLICY ...`. "
            "How hard and how",
            "fair they are, measured by their bots, is in [balance.md](balance.md); what policies that do "
            "not do the task earn",
            "is in [hackability.md](hackability.md); what a small model learns of the newer ones is in",
            "[first_rung.md](first_rung.md); how to add one is in "
            "[the guide](../guides/write_an_environment.md).",
            "",
            "`srl envs ID` prints rules, options and bots of one. `make docs` writes a page of each beside "
            "this list, with a",
            "sample episode (`nim-v0.md`), and all that their players read (`prompts.md`, `prompts.html`).",
            "",
            "| id | mode | seats | what it is | bots |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "Every environment takes these options beside its own:",
            "",
            *_table(("option", "meaning (default)"), SHELL_OPTIONS),
            "",
            "Written by `python -m benchmarks.environments.pages`; do not edit.",
            "",
        ]
    )


def page(spec: EnvSpec) -> str:
    """Description of one environment from its code, and a sample episode."""
    game: type[Game[Any, Any]] = load_entry_point(spec.entry_point)
    module = importlib.import_module(game.__module__)
    players = " ".join(["human", *["middle"] * (spec.seats - 1)])
    return "\n".join(
        [
            f"# {spec.id}",
            "",
            spec.summary,
            "",
            f"*{spec.mode}, {seats(spec)} seats* · `srl play {spec.id} {players}` · "
            "[all environments](README.md) · [prompts](prompts.md) · [balance](balance.md)",
            "",
            "## Rules and rewards",
            "",
            prose(module.__doc__ or ""),
            "",
            f"Outcome: {_first(game.returns)}",
            "",
            f"Statistics: {_first(game.components)}",
            "",
            f"Default move, when all tries are used up: {_first(game.fallback)}",
            "",
            "## Options",
            "",
            *_table(("option", "meaning (default)"), spec.options),
            "",
            "## Bots",
            "",
            *_table(
                ("bot", "what it does"),
                {name: _first(load_entry_point(target)) for name, target in spec.bots.items()},
            ),
            "",
            "## Hackability",
            "",
            *hackability(spec.id),
            "",
            f"## Seed {SAMPLE_SEED} of the eval split",
            "",
            *sample(spec),
            "",
            "Written by `python -m benchmarks.environments.pages`; do not edit.",
            "",
        ]
    )


def hackability(env_id: str) -> list[str]:
    """What the last published attack came to."""
    report = published.published().get(env_id)
    if report is None:
        return ["Not attacked yet: [the table](hackability.md)."]
    cells = dict(zip(table.COLUMNS[1:], map(table.as_cell, table.row(report)[1:]), strict=True))
    return [
        "What policies that do not do the task earn; the numbers are explained in "
        f"[the table of all games](hackability.md). Attack it yourself: `srl redteam {env_id}`.",
        "",
        "| measure | value |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in cells.items()),
    ]


def seats(spec: EnvSpec) -> str:
    """The number of seats, or the range that an option allows."""
    found = re.search(r"seats, (\d) to (\d)", " ".join(spec.options.values()))
    return f"{found[1]} to {found[2]} (default {spec.seats})" if found else str(spec.seats)


def prose(docstring: str) -> str:
    """A docstring as Markdown: code marks of one kind, text otherwise as it stands."""
    parts = inspect.cleandoc(docstring).replace("``", "`").split("`")
    for outside_code in range(0, len(parts), 2):
        parts[outside_code] = re.sub(r"([<*])", r"\\\1", parts[outside_code])
    return "`".join(parts)


def _first(documented: object) -> str:
    """The first sentences of a docstring, on one line."""
    text = inspect.getdoc(documented) or "no description."
    return prose(" ".join(text.partition("\n\n")[0].split()))


def _table(heads: tuple[str, str], rows: Mapping[str, str]) -> list[str]:
    if not rows:
        return ["None."]
    cells = (
        f"| `{name}` | {meaning.replace('|', chr(92) + '|')} |" for name, meaning in rows.items()
    )
    return [f"| {heads[0]} | {heads[1]} |", "|---|---|", *cells]


class _Log:
    """Writes down an episode as it is played."""

    def __init__(self, env: Any, names: Mapping[int, str]) -> None:
        self.lines: list[str] = []
        self._env, self._names = env, names
        self._seen: dict[int, str] = {}
        self._turns = self._steps = 0

    def step(self, observations: Mapping[str, dict[str, Any]], step: Step) -> None:
        if self._turns >= SAMPLE_TURNS:
            return
        self._turns, self._steps = self._turns + len(step.replies), self._steps + 1
        for seat, reply in step.replies.items():
            text = observations[self._env.possible_agents[seat]]["text"]
            before = self._seen.get(seat)
            self._seen[seat] = text
            shown, sees = (text, "sees") if before is None else (news(before, text), "sees now")
            who = f"{seat_name(seat)} ({self._names[seat]})"
            cut = shown if before is None else _cut(shown)
            self.lines += [
                f"{who} {sees}",
                "",
                *_block(cut),
                "",
                "and replies",
                "",
                *_block(reply),
                "",
            ]

    def end(self, game: Transcript) -> list[str]:
        more = len(game.steps) - self._steps
        skipped = (
            [f"... and {more} {'step' if more == 1 else 'steps'} more.", ""] if more > 0 else []
        )
        paid = ", ".join(
            f"{seat_name(seat)} ({self._names[seat]}) {outcome:+.3f}"
            for seat, outcome in enumerate(game.outcomes)
        )
        return [*self.lines, *skipped, f"Outcome: {paid}."]


def sample(spec: EnvSpec) -> list[str]:
    """An episode between bots: what they see and reply, and what it comes to."""
    names = {seat: SAMPLE_BOTS[seat % len(SAMPLE_BOTS)] for seat in range(spec.seats)}
    bots = {seat: srl_envs.make_bot(spec.id, name, seed=seat) for seat, name in names.items()}
    env: Any = srl_envs.make(spec.id)
    try:
        log = _Log(env, names)
        game = srl_envs.play(env, bots, seed=SAMPLE_SEED, split="eval", on_step=log.step)
    finally:
        env.close()
    return log.end(game)


def _block(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return [f"{FENCE}text", *(lines or ["(nothing)"]), FENCE]


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}\n..."


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages of some environments, of all by default, and the list."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("envs", nargs="*", metavar="ENV", help="all built-in ones by default")
    chosen = parser.parse_args(argv).envs
    named = {f"{spec.id}.md": page(spec) for spec in map(srl_envs.spec, chosen)}
    texts = named or pages()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
