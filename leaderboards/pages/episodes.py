"""Episodes for the site's replay viewer: their selection, and every seat's observations.

An episode is played again from its replies, so the viewer shows what the environment does, not what a file
claims; where the two differ the page reports it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from leaderboards.contents.served import ServedTurns
from srl_agents.cli.views.recorded import RecordedEpisode, watchable
from srl_agents.cli.views.transcript import move_text, news, printable
from srl_agents.records import MatchResult, MatchSpec, Served
from srl_envs.api.episode import Transcript
from srl_envs.errors import SRLError
from srl_envs.sandbox.lending import kept_sandboxes

PER_BOARD = 60
"""Episodes that a board shows."""

Match = tuple[MatchSpec, MatchResult]


def choose(matches: Iterable[Match], order: Sequence[str], most: int = PER_BOARD) -> list[Match]:
    """Matches of as many different pairings as possible, those of the best agents first.

    Within a pairing matches with refused replies and without take turns: both are worth a look.

    Args:
        matches: played ones.
        order: agents from best to worst.
        most: how many.
    """
    place = {name: k for k, name in enumerate(order)}
    pairings: dict[tuple[str, ...], list[Match]] = defaultdict(list)
    for match in matches:
        pairings[tuple(sorted(match[0].seats))].append(match)
    ranked = sorted(
        pairings, key=lambda names: (sum(place.get(name, len(place)) for name in names), names)
    )
    queues = [_alternating(pairings[names]) for names in ranked]
    chosen: list[Match] = []
    while queues and len(chosen) < most:
        queues = [queue for queue in queues if queue]
        chosen += [queue.pop(0) for queue in queues[: most - len(chosen)]]
    return chosen


def _alternating(matches: Iterable[Match]) -> list[Match]:
    ordered = sorted(matches, key=lambda match: (match[0].number, match[0].match_id))
    flawed = [match for match in ordered if sum(match[1].invalid_replies)]
    clean = [match for match in ordered if not sum(match[1].invalid_replies)]
    both = min(len(flawed), len(clean))
    mixed = [match for pair in zip(clean, flawed, strict=False) for match in pair]
    return [*mixed, *clean[both:], *flawed[both:]]


def listed(match: Match, transcript: Transcript) -> dict[str, Any]:
    """A line of the board's list of episodes."""
    spec, result = match
    return {
        "match": spec.match_id,
        "seats": list(spec.seats),
        "outcomes": list(result.outcomes),
        "forfeited": list(result.forfeited),
        "steps": len(transcript.steps),
        "invalid": sum(result.invalid_replies),
        "termination": result.termination,
    }


def viewer_episodes(
    slug: str,
    chosen: Iterable[Match],
    transcripts: Mapping[str, Transcript],
    served: Mapping[str, ServedTurns] | None = None,
) -> Iterator[dict[str, Any]]:
    """One episode file after the other; see `viewer_episode`.

    Args:
        slug: of the board.
        chosen: which matches.
        transcripts: match id -> what was recorded of it.
        served: match id -> what endpoints reported of their replies.
    """
    with kept_sandboxes():
        for spec, result in chosen:
            transcript = transcripts[spec.match_id]
            try:
                recorded = watchable(transcript, spec.seats)
            except (
                SRLError
            ) as error:  # another version of the game, or one that is not installed here
                yield _described(slug, spec, result, transcript, [f"it cannot be played: {error}"])
            else:
                reports = (served or {}).get(spec.match_id, {})
                yield viewer_episode(slug, spec, result, recorded, reports)


def viewer_episode(
    slug: str,
    spec: MatchSpec,
    result: MatchResult,
    recorded: RecordedEpisode,
    served: ServedTurns,
) -> dict[str, Any]:
    """All that the viewer shows of an episode, as JSON values.

    A seat's view is ``[kept, rest]``: what it saw one step earlier, cut after ``kept`` characters,
    and what follows. Views grow by a few lines a step, so this is a tenth of their length.
    ``boards`` are the spectator's views before each step and at the end.
    """
    game = recorded.transcript
    seen = [""] * len(spec.seats)
    ends = {seat: iter(reported) for seat, reported in served.items()}
    steps, boards = [], []
    for step in recorded.steps:
        boards.append(step.board)
        turns = []
        for turn in step.turns:
            text = printable(turn.text.strip("\n"))
            turns.append(
                {
                    "seat": turn.seat,
                    "view": _grown(seen[turn.seat], text),
                    "news": printable(turn.text if turn.before is None else news(turn.before, turn.text)),
                    "reply": None if turn.reply is None else printable(turn.reply),
                    "invalid": turn.invalid,
                    "played": None if turn.played is None else move_text(turn.played),
                    "finish": None if turn.reply is None else _finish(ends.get(turn.seat)),
                    "reward": turn.reward,
                    "components": dict(turn.components),
                    **({"thoughts": printable(turn.thoughts)} if turn.thoughts else {}),
                }
            )  # fmt: skip
            seen[turn.seat] = text
        steps.append(turns)
    differs = list(recorded.differs)
    if result.trajectory_sha256 not in ("", game.digest):
        differs.append("the digest that the store holds")
    return {
        **_described(slug, spec, result, game, differs),
        "steps": steps,
        "boards": [
            None if board is None else printable(board) for board in (*boards, recorded.last_board)
        ],
        "end": [
            {
                "view": _grown(seen[seat], printable(text.strip("\n"))),
                "news": printable(news(before, text)),
            }
            for seat, (before, text) in enumerate(recorded.last)
        ],
    }


def _finish(reports: Iterator[Served] | None) -> str | None:
    """How the next reply of an endpoint ended; None for everybody else."""
    following = next(reports, None) if reports is not None else None
    return following.finish if following is not None else None


def _described(
    slug: str, spec: MatchSpec, result: MatchResult, game: Transcript, differs: Sequence[str]
) -> dict[str, Any]:
    """An episode without its steps."""
    return {
        "match": spec.match_id,
        "board": slug,
        "env_id": spec.env_id,
        "seed": str(spec.seed),
        "seats": list(spec.seats),
        "termination": result.termination,
        "forfeited": list(game.forfeited),
        "outcomes": list(game.outcomes),
        "rewards": list(game.rewards),
        "components": [dict(sums) for sums in game.components],
        "differs": list(differs),
        "steps": [],
        "boards": [None],
        "end": [],
    }


def _grown(before: str, after: str) -> list[Any]:
    kept, most = 0, min(len(before), len(after))
    while kept < most:  # halves, because comparing texts is fast and comparing characters is not
        middle = (kept + most + 1) // 2
        if before[kept:middle] == after[kept:middle]:
            kept = middle
        else:
            most = middle - 1
    return [_utf16(after[:kept]), after[kept:]]


def _utf16(text: str) -> int:
    """Length as the browser counts it: characters above U+FFFF are two."""
    return len(text) + sum(character > "\uffff" for character in text)
