"""`srl leaderboard verify`: check bundles."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboards.cli.parser import OneLineParser
from leaderboards.cli.progress import ProgressBar
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.verify import Verdict

EXAMPLES = """\
levels, each with those before it:
  L0  hashes; the matches are those of the schedule, each once, in order; the agents may enter
  L1  the ratings follow from the matches
  L2  every episode, replayed in a fresh process, comes to the same
  L3  bots give the same replies again; models' tokens are what their random numbers select from the
      declared weights (log-probabilities within 0.01 nats)

examples:
  srl leaderboard verify runs/board/bundles
  srl leaderboard verify submission/connect_four-v0/* --level L3 --workers 2
  srl leaderboard verify bundles --level L3 --model alice@30=tiny+snapshots/alice@30

exit codes: 0 all accepted, 1 one rejected, 2 a mistake in the command or something missing here.
"""


def main(argv: list[str]) -> int:
    """Exit code: 0 all accepted, 1 one rejected, 2 the user has something to fix."""
    options = _parser().parse_args(argv)

    from leaderboards.bundle import find_bundles
    from leaderboards.verify import verify

    sources = dict(_named(text) for text in options.model)
    folders = [found for path in options.bundles for found in find_bundles(Path(path))]
    verdicts = []
    for folder in folders:
        with ProgressBar(options.json) as bar:
            verdicts.append(
                verify(
                    folder, options.level, workers=options.workers, sources=sources, told=bar.told
                )
            )
        if not options.json:
            print(sentence(verdicts[-1]), flush=True)
    if options.json:
        print(json.dumps([{**asdict(v), "accepted": v.accepted} for v in verdicts]))
    return 0 if all(verdict.accepted for verdict in verdicts) else 1


def sentence(verdict: Verdict) -> str:
    """A verdict for people."""
    if verdict.accepted:
        notes = f" ({'; '.join(verdict.notes)})" if verdict.notes else ""
        return f"{verdict.bundle}: {verdict.reached} holds: {'; '.join(verdict.checked.values())}{notes}"
    held = f"{verdict.reached} holds, the next level does not" if verdict.reached else "rejected"
    return f"{verdict.bundle}: {held}: {verdict.rejected}"


def _named(text: str) -> tuple[str, str]:
    name, equals, source = text.partition("=")
    if not equals or not name or not source:
        raise ConfigError(f"--model {text!r}: write AGENT=MODEL or AGENT=MODEL+FOLDER.")
    return name, source


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser("verify", "Check bundles up to a level.", EXAMPLES)
    parser.add_argument("bundles", nargs="+", metavar="PATH", help="a bundle, or a folder of some")
    parser.add_argument("--level", choices=("L0", "L1", "L2", "L3"), default="L2")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes that replay")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="AGENT=MODEL",
        help="where an agent's weights are, if the bundle does not hold them",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, and no progress")
    return parser
