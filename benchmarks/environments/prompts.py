"""All that players read, side by side: ``docs/environments/prompts.md`` and ``prompts.html``.

    python -m benchmarks.environments.prompts

The first prompt of every seat of every game, one from the middle of a game between strong bots, and one
after a reply without a move, with their lengths in tokens. Lengths are kept in a file of results, by the
hash of the text: without SmolLM2 on this machine those of the last run are taken.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import srl_envs
from benchmarks.environments.pages import FENCE, FOLDER, built_in
from srl_envs.api.episode import Step
from srl_envs.core import seat_name
from srl_envs.registry import EnvSpec

RESULTS = Path(__file__).parents[1] / "results/prompt_tokens.json"
SEED, SPLIT, BOT = 0, "eval", "strong"
NO_MOVE = "I am not sure yet."
"""The reply without a move."""
TOKENIZERS = ("tiny", "smollm2-135m")
FIRST, MIDDLE, REFUSED = "first prompt", "middle of the game", "after a reply without a move"

Counts = Mapping[str, Mapping[str, int]]
"""Hash of a text -> tokenizer -> tokens."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One text that one seat has to answer."""

    moment: str
    """`FIRST`, `MIDDLE` or `REFUSED`."""
    seat: int
    text: str

    @property
    def name(self) -> str:
        """Hash that its lengths are kept by."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def prompts(spec: EnvSpec) -> list[Prompt]:
    """What players of one game read: every seat's first prompt, then one of each other moment."""
    asked: list[tuple[int, str]] = []

    def note(observations: Mapping[str, dict[str, Any]], step: Step) -> None:
        asked.extend((seat, observations[seat_name(seat)]["text"]) for seat in step.replies)

    env: Any = srl_envs.make(spec.id)
    try:
        seats = range(len(env.possible_agents))
        bots = {seat: srl_envs.make_bot(spec.id, BOT, seed=seat) for seat in seats}
        srl_envs.play(env, bots, seed=SEED, split=SPLIT, on_step=note)
        start, _ = env.reset(seed=SEED, options={"split": SPLIT})
        first = next(seat for seat in seats if start[seat_name(seat)]["can_act"])
        acting = {agent: NO_MOVE for agent, seen in start.items() if seen["can_act"]}
        refused = env.step(acting)[0][seat_name(first)]["text"]
    finally:
        env.close()
    opening = dict(reversed(asked))
    middle = asked[len(asked) // 2]
    return [
        *(Prompt(FIRST, seat, opening.get(seat, start[seat_name(seat)]["text"])) for seat in seats),
        Prompt(MIDDLE, *middle),
        Prompt(REFUSED, first, refused),
    ]


# --- lengths ---------------------------------------------------------------------------------


def tokenizer_files() -> dict[str, Path]:
    """The tokenizers that this machine has."""
    from srl_agents.models.sources.catalog import cache_folder, resolve

    found = {"tiny": resolve("tiny"), "smollm2-135m": cache_folder() / "smollm2-135m"}
    files = {name: folder / "tokenizer.json" for name, folder in found.items()}
    return {name: path for name, path in files.items() if path.is_file()}


def count(texts: Sequence[Prompt], known: Counts) -> dict[str, dict[str, int]]:
    """Lengths of all prompts, those of absent tokenizers as they are known."""
    from tokenizers import Tokenizer

    counts: dict[str, dict[str, int]] = {
        prompt.name: dict(known.get(prompt.name, {})) for prompt in texts
    }
    for name, path in tokenizer_files().items():
        tokenizer = Tokenizer.from_file(str(path))
        for prompt in texts:
            encoded = tokenizer.encode(prompt.text, add_special_tokens=False)
            counts[prompt.name][name] = len(encoded.ids)
    return counts


def recorded() -> dict[str, dict[str, int]]:
    """The lengths of the last run."""
    if not RESULTS.is_file():
        return {}
    return dict(json.loads(RESULTS.read_text(encoding="utf-8"))["tokens"])


# --- the pages -------------------------------------------------------------------------------


def page(games: Mapping[str, Sequence[Prompt]], counts: Counts) -> str:
    """The page in Markdown: lengths, then texts."""
    lines = [
        "# Prompts",
        "",
        "All that players read. `python -m benchmarks.environments.prompts` writes this page and",
        "[one that shows the seats side by side](prompts.html); do not edit. Every text is an",
        f"observation's `text` as it stands, of seed {SEED} of the split `{SPLIT}` with default options. The",
        f"prompt from the middle is of a game between `{BOT}` bots; the reply without a move is",
        f"`{NO_MOVE}`",
        "",
        "Tokens are counted without a chat template, by the tokenizers of `tiny` and of SmolLM2-135M.",
        "",
        *table(games, counts),
    ]
    for env_id, shown in games.items():
        lines += ["", *section(env_id, shown, counts)]
    return "\n".join(lines) + "\n"


def table(games: Mapping[str, Sequence[Prompt]], counts: Counts) -> list[str]:
    """Lengths of every game's prompts, as ``tiny / SmolLM2``; of first prompts the longest seat's."""
    lines = [
        f"| game | seats | {FIRST}: tiny / SmolLM2 | {MIDDLE} | {REFUSED} |",
        "|---|---|---|---|---|",
    ]
    for env_id, shown in games.items():
        of = {
            moment: [p for p in shown if p.moment == moment] for moment in (FIRST, MIDDLE, REFUSED)
        }
        cells = " | ".join(lengths(of[moment], counts) for moment in of)
        lines.append(f"| [`{env_id}`](#{env_id}) | {len(of[FIRST])} | {cells} |")
    return lines


def lengths(shown: Sequence[Prompt], counts: Counts) -> str:
    """The most tokens of some prompts by each tokenizer; a dash where one was never counted."""
    each = [[counts.get(p.name, {}).get(name) for p in shown] for name in TOKENIZERS]
    known = [[n for n in row if n is not None] for row in each]
    return " / ".join(str(max(row)) if row else "–" for row in known)


def section(env_id: str, shown: Sequence[Prompt], counts: Counts) -> list[str]:
    """The texts of one game."""
    lines = [f"## {env_id}", ""]
    for prompt in shown:
        lines += [
            f"**{seat_name(prompt.seat)}**, {prompt.moment} ({lengths([prompt], counts)} tokens):",
            "",
            f"{FENCE}text",
            *(line.rstrip() for line in prompt.text.strip("\n").splitlines()),
            FENCE,
            "",
        ]
    return lines[:-1]


_STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 1rem; }
nav { columns: 14rem; }
h2 { position: sticky; top: 0; background: Canvas; margin: 0; padding: .4rem 0; }
.game { display: flex; gap: .8rem; overflow-x: auto; align-items: flex-start; }
figure { flex: 0 0 26rem; margin: 0 0 1.5rem; border: 1px solid; padding: .6rem; border-radius: .4rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0 0; }
"""


def web_page(games: Mapping[str, Sequence[Prompt]], counts: Counts) -> str:
    """The same, the prompts of a game beside each other."""
    parts = [
        "<!doctype html>", '<html lang="en">', '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">', "<title>Prompts of all games</title>",
        f"<style>{_STYLE}</style>", "<h1>Prompts of all games</h1>", "<nav>",
        *(f'<a href="#{env_id}">{env_id}</a><br>' for env_id in games), "</nav>",
    ]  # fmt: skip
    for env_id, shown in games.items():
        parts += [f'<h2 id="{env_id}">{env_id}</h2>', '<div class="game">']
        for prompt in shown:
            caption = f"<b>{seat_name(prompt.seat)}</b>, {prompt.moment}, "
            caption += f"{lengths([prompt], counts)} tokens"
            parts += [
                "<figure>", f"<figcaption>{caption}</figcaption>",
                f"<pre>{html.escape(prompt.text.strip(chr(10)))}</pre>", "</figure>",
            ]  # fmt: skip
        parts.append("</div>")
    return "\n".join([*parts, "</html>", ""])


def main(argv: Sequence[str] | None = None) -> int:
    """Count, and write both pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.parse_args(argv)
    games = {spec.id: prompts(spec) for spec in built_in() if spec.is_installed}
    counts = count([prompt for shown in games.values() for prompt in shown], recorded())
    data = {"command": "python -m benchmarks.environments.prompts", "tokens": counts}
    RESULTS.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for name, text in (("md", page(games, counts)), ("html", web_page(games, counts))):
        path = FOLDER / f"prompts.{name}"
        path.write_text(text, encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
