"""Episodes of a site: their selection, and that their texts are the game's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from leaderboards.pages.episodes import _grown, choose, listed, viewer_episodes
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.api.episode import Transcript


def a_match(
    number: int, seats: tuple[str, ...] = ("a", "b"), invalid: int = 0
) -> tuple[MatchSpec, MatchResult]:
    spec = MatchSpec(env_id="nim-v0", seed=number, split="eval", seats=seats, number=number)
    result = MatchResult(
        match_id=spec.match_id, outcomes=(1.0, -1.0), rewards=(1.0, -1.0), termination="ok",
        invalid_replies=(0, invalid),
    )  # fmt: skip
    return spec, result


def a_game(seed: int = 3, **options: Any) -> Transcript:
    env = srl_envs.make("nim-v0", **options)
    bots = {seat: srl_envs.make_bot("nim-v0", "random", seat) for seat in (0, 1)}
    return srl_envs.play(env, bots, seed, split="eval")


def expanded(episode: dict[str, Any]) -> list[list[str]]:
    """The views of every step, put together as the page does; characters are counted in UTF-16."""
    last = [""] * len(episode["seats"])
    views = []
    for turns in [*episode["steps"], episode["end"]]:
        for seat, turn in enumerate(turns):
            kept, rest = turn["view"]
            units = last[seat].encode("utf-16-le", "surrogatepass")[: 2 * kept]
            last[seat] = units.decode("utf-16-le", "surrogatepass") + rest
        views.append(list(last))
    return views


def test_pairings_take_turns_and_the_best_come_first() -> None:
    matches = [a_match(n, ("a", "b")) for n in range(5)]
    matches += [a_match(n, ("b", "c")) for n in range(5)]
    matches += [a_match(n, ("a", "c")) for n in range(5)]
    chosen = [spec.seats for spec, _ in choose(matches, ["a", "b", "c"], 5)]
    assert chosen == [("a", "b"), ("a", "c"), ("b", "c"), ("a", "b"), ("a", "c")]


def test_clean_and_flawed_matches_take_turns() -> None:
    matches = [a_match(n, invalid=int(n in (3, 4, 5))) for n in range(8)]
    assert [spec.number for spec, _ in choose(matches, ["a", "b"], 8)] == [0, 3, 1, 4, 2, 5, 6, 7]
    assert choose([], ["a"], 3) == []


def test_the_viewer_has_every_seats_view_of_every_step() -> None:
    game = a_game()
    match = a_match(3, ("a", "b"))
    transcripts = {match[0].match_id: game}
    (episode,) = viewer_episodes("nim-v0", [match], transcripts)
    env = srl_envs.make("nim-v0")
    observations, _ = env.reset(seed=3, options={"split": "eval"})
    for step, seen in zip(game.steps, expanded(episode), strict=False):
        texts = [observations[agent]["text"].strip("\n") for agent in env.possible_agents]
        assert seen == texts
        replies = {env.possible_agents[seat]: text for seat, text in step.replies.items()}
        observations, *_ = env.step(replies)
    assert len(episode["steps"]) == len(game.steps) == listed(match, game)["steps"]
    assert episode["differs"] == []
    json.dumps(episode, allow_nan=False)
    assert len(episode["boards"]) == len(game.steps) + 1
    assert episode["boards"][-1] == env.render()
    moves = [turn["played"] for turns in episode["steps"] for turn in turns if turn["played"]]
    assert moves == [reply[8:-9] for step in game.steps for reply in step.replies.values()]
    shown = [turn["reply"] for turns in episode["steps"] for turn in turns if turn["reply"]]
    assert shown == [reply for step in game.steps for reply in step.replies.values()]


def test_a_recording_that_claims_another_result_is_marked() -> None:
    forged = replace(a_game(), outcomes=(0.5, 0.5))
    match = a_match(3)
    (episode,) = viewer_episodes("x", [match], {match[0].match_id: forged})
    assert episode["differs"] == ["outcomes"]
    spec, result = match
    other = replace(result, trajectory_sha256="0" * 64)
    (episode,) = viewer_episodes("x", [(spec, other)], {spec.match_id: a_game()})
    assert episode["differs"] == ["the digest that the store holds"]


def test_a_recording_that_does_not_fit_the_game_is_shown_without_steps() -> None:
    game = a_game()
    match = a_match(3)
    cut = replace(game, steps=(*game.steps, game.steps[-1]))
    gone = replace(game, env_id="gone-v9")
    for broken in (cut, gone):
        (episode,) = viewer_episodes("x", [match], {match[0].match_id: broken})
        assert episode["steps"] == []
        assert episode["differs"][0].startswith("it cannot be played: ")
        assert episode["outcomes"] == list(game.outcomes)


def test_a_game_without_a_view_of_its_own_for_spectators_has_no_board() -> None:
    env = srl_envs.make("kuhn_poker-v0")
    bots = {seat: srl_envs.make_bot("kuhn_poker-v0", "random", seat) for seat in (0, 1)}
    game = srl_envs.play(env, bots, 3, split="eval")
    match = a_match(3)
    (episode,) = viewer_episodes("x", [match], {match[0].match_id: game})
    assert set(episode["boards"]) == {None}


@pytest.mark.slow
@given(st.text(), st.text())
def test_a_view_is_what_it_shares_with_the_one_before_and_the_rest(before: str, after: str) -> None:
    kept, rest = _grown(before, after)
    units = before.encode("utf-16-le", "surrogatepass")[: 2 * kept]
    assert units.decode("utf-16-le", "surrogatepass") + rest == after
