"""The page of `benchmarks.environments.balance`: one table of all games, then every matrix."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import srl_envs
from benchmarks.environments.bot_matches import Balance, Estimate
from benchmarks.environments.lookahead import MOVES, OPEN_GAMES, ROLLOUTS
from srl_envs.redteam.findings import Report
from srl_envs.redteam.published import published
from srl_envs.redteam.search import ITSELF

CHARS_PER_TOKEN = 4
"""Rule of thumb for English, which the page states."""
SOLVED = Path(__file__).parents[1] / "results/solved_values.json"
"""Rows of `benchmarks.environments.solved_values`."""


class Known(NamedTuple):
    """A policy that is known to earn more than strong, or less."""

    gain: float
    """Above strong in the same place."""
    half: float
    """Of its 95 % interval."""
    who: str

    def __str__(self) -> str:
        return f"{self.gain:+.3f} ± {self.half:.3f}, {self.who}"


def report(
    balances: Sequence[Balance], provenance: str, attacks: Mapping[str, Report] | None = None
) -> str:
    """The page, in Markdown.

    Args:
        balances: of all environments that were measured.
        provenance: with what.
        attacks: environment -> its attack; the last published ones by default.
    """
    attacks = published() if attacks is None else attacks
    lines = [
        "# Balance of the environments",
        "",
        f"Written by `benchmarks/environments/balance.py`; do not edit. {provenance}",
        "",
        *_EXPLAINED,
        *_unmeasured(balances),
        "",
        "| environment | mode, seats | ladder: mean over all company | strong - random "
        "| best without thought - strong | best known - strong | all-seeing look-ahead - strong "
        "| seat 0 gap | opener gap |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(b, attacks.get(b.env)) for b in balances),
        "",
        "| environment | strong - random in all company | replies a seat | prompt tokens, mean (longest) "
        "| refused | seeds, games |",
        "|---|---|---|---|---|---|",
        *map(_second_row, balances),
        *_solved(json.loads(SOLVED.read_text())),
    ]
    for b in balances:
        lines += ["", f"## {b.env}", "", f"{b.seeds} seeds; row among columns.", "", *_matrix(b)]
    return "\n".join(lines) + "\n"


_EXPLAINED = f"""\
Every bot plays one seat while another bot plays all the others, once in every seat of every seed.
Outcomes are per episode, in [-1, 1]; intervals are at 95 %, clustered by seed.

- `ladder`: what each bot earns on average beside each bot in turn, best first.
- `strong - random`: what a strong bot earns among random ones where the mode is competitive, in all
  company where a score is one among strangers (undercover, werewolf, treaties), and else what a team
  of strong bots earns above a team of random ones.
- `best without thought - strong`: the policy of `srl redteam` that gains most above strong in the same
  seats, seeds and company ([hackability](hackability.md)); its interval holds for all that were tried.
- `best known - strong`: headroom. The best of: another bot or a policy without thought beside strong
  bots; where teams are scored, a team of either beside a team of strong, or a code of the red team; the
  look-ahead, where nothing is hidden. `none` where no interval is above 0. It is the best of several,
  which flatters it. Where seats share one outcome, brackets say what is left up to 1.
- `all-seeing look-ahead`: tries {MOVES} moves at every turn, plays each on {ROLLOUTS} times with strong
  bots, and takes the best. It sees hidden cards and future random draws, which no player does.
- A `seat 0` or `opener` gap is what that seat, or the one that moves first, earns above the others
  when the same bot sits everywhere.
- Tokens are characters / {CHARS_PER_TOKEN}, of what a bot was asked with; `make docs` writes exact
  numbers to `prompts.md`.""".splitlines()


def known_above_strong(b: Balance, attack: Report | None) -> Iterator[Known]:
    """All that is compared with strong beside strong, or as a team with a team of strong."""
    yield from (Known(e.mean, e.half, f"{bot} beside strong") for bot, e in b.beside_strong.items())
    yield from (Known(e.mean, e.half, f"a team of {bot}") for bot, e in b.teams.items())
    if b.look_ahead is not None and b.env in OPEN_GAMES:
        yield Known(b.look_ahead.mean, b.look_ahead.half, "look-ahead beside strong")
    measures = attack.measures if attack is not None else {}
    for found in measures.get("responses", ()):
        if found["company"] in ("strong", ITSELF):
            place = "a team of" if found["company"] == ITSELF else "beside strong"
            who = f"{place} {_code(found)}" if place == "a team of" else f"{_code(found)} {place}"
            yield Known(found["gain"], found["half"], who)
    if "codebook_gain" in measures:
        gain, half = measures["codebook_gain"], measures["codebook_half"]
        yield Known(gain, half, "a team with a code")


def _code(found: Mapping[str, object]) -> str:
    return "`" + str(found["thoughtless"]).replace("`", "'").replace("|", "/") + "`"


def _row(b: Balance, attack: Report | None) -> str:
    mark = "" if b.separated else " **not apart**"
    cells = (
        f"`{b.env}`",
        f"{b.mode}, {b.seats}",
        _ladder(b.ladder),
        f"{b.separation}{mark}",
        _thoughtless(attack),
        _headroom(b, attack),
        b.look_ahead or "too slow",
        b.seat_gap,
        b.mover_gap or "at once",
    )
    return f"| {' | '.join(map(str, cells))} |"


def _ladder(found: Mapping[str, Estimate]) -> str:
    order = sorted(found, key=lambda bot: -found[bot].mean)
    return "<br>".join(f"{bot} {found[bot]}" for bot in order)


def _thoughtless(attack: Report | None) -> str:
    if attack is None or "gain" not in attack.measures:
        return "not attacked"
    found = attack.measures
    known = Known(found["gain"], found["half"], f"{_code(found)} beside {found['company']}")
    return str(known)


def _headroom(b: Balance, attack: Report | None) -> str:
    clear = [known for known in known_above_strong(b, attack) if known.gain - known.half > 0.0]
    best = str(max(clear)) if clear else "none"
    if b.mode != "cooperative":
        return best
    return f"{best} (up to {1.0 - b.payoffs['strong']['strong'].mean:+.3f})"


def _second_row(b: Balance) -> str:
    mean, longest = (chars / CHARS_PER_TOKEN for chars in (b.prompt_chars, b.prompt_chars_max))
    void = f" ({b.void} void)" if b.void else ""
    cells = (
        f"`{b.env}`", b.among_all, f"{b.replies:.1f}", f"{mean:.0f} ({longest:.0f})",
        f"{b.refused:.1%}", f"{b.seeds}, {b.games}{void}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def _unmeasured(balances: Sequence[Balance]) -> list[str]:
    known = {b.env for b in balances}
    missing = [
        env_id for env_id in srl_envs.list_envs() if "/" not in env_id and env_id not in known
    ]
    return ["", f"Not measured yet: {', '.join(missing)}."] if missing else []


def _solved(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The bots beside solutions, where a game of this size has one."""
    return [
        "",
        "## Beside solvers",
        "",
        "`python -m benchmarks.environments.solved_values --publish`. Chances of bots that draw are counted "
        "in hundreds or thousands of replies, which makes them look a little easier to exploit than they "
        "are.",
        "",
        "| game | measure | solved by | solution | bots |",
        "|---|---|---|--:|---|",
        *(
            f"| `{row['game']}` | {row['measure']} | {row['solver']} | {row['solution']:.3f} | "
            + "<br>".join(f"{name} {value:.3f}" for name, value in row["bots"].items())
            + " |"
            for row in rows
        ),
    ]


def _matrix(b: Balance) -> list[str]:
    heads = "".join(f" {name} |" for name in b.bots)
    rows = (
        f"| **{row}** |" + "".join(f" {b.payoffs[row][column]} |" for column in b.bots)
        for row in b.bots
    )
    return [f"| |{heads}", "|---|" + "---|" * len(b.bots), *rows]
