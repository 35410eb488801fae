"""Programs of short comparisons: what they run, and what their tables are of."""

import asyncio
import json
from typing import Any

import pytest

from benchmarks.experiments import announced
from benchmarks.learning import exchange_arms, fork_credit, fork_outcomes
from benchmarks.learning.small_games import CODEWORDS, CORPORA, SHAPES
from benchmarks.speed import fork_updates, magrpo
from benchmarks.tiny_model.tokenizer import train_tokenizer
from srl_agents.engines.protocol import GenerationRequest
from srl_agents.recipes.loading import read_values
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs import make


def test_every_kind_of_credit_is_run_in_both_games_at_one_budget() -> None:
    experiment = fork_outcomes.pilot(tokens=500).experiment
    assert {(key.arena, key.arm) for key in experiment.runs()} == {
        (arena, arm) for arena in ("hanabi", "codewords") for arm in fork_outcomes.CREDITS
    }
    for arena, game in (("hanabi", "hanabi_mini-v0"), ("codewords", "codewords_duet-v0")):
        for arm in fork_outcomes.CREDITS:
            values = {**experiment.recipe(arena, arm), "name": "pilot", "model": "tiny"}
            recipe = read_values(LeagueRecipe, json.loads(json.dumps(values)), "arm")
            assert recipe.env == game
            assert recipe.stop is not None
            assert recipe.stop.tokens == 500


def test_pilot_seeds_belong_to_no_announced_experiment() -> None:
    taken = {seed for page in announced.pages() for seed in page.experiment.seeds}
    assert taken.isdisjoint({*fork_outcomes.PILOTS, 100, 101})


def outcome(arm: str, seed: int, last: float) -> dict[str, Any]:
    values = {"first": 0.25, "last": last, "peak": last, "refused": 0.0}
    spent = {"updates": 3, "cpu_s": 1800.0, "trained_tokens": 90}
    return {"arena": "hanabi", "arm": arm, "seed": seed, "values": values, **spent}


def test_outcomes_are_compared_seed_by_seed() -> None:
    found = [
        outcome("group per episode", 901, 0.5),
        outcome("group per episode", 902, 0.3),
        outcome("c3", 901, 0.6),
        outcome("c3", 902, 0.2),
    ]
    lines = [*fork_outcomes.table(found)]
    # mean of +.1 and -.1; t(1) at .975 is 12.706, the deviation of the mean .1
    assert any("| c3 | 2 | 0.250 | 0.400 | +0.100, -0.100 | +0.000 ± 1.271 |" in x for x in lines)
    assert lines[-1].endswith("4 runs, 2.00 CPU hours, training and measuring.")


def exchanged(arm: str, seed: int, alice: float, bob: float) -> dict[str, Any]:
    outcomes = {"alice": alice, "bob": bob}
    own = {"pair": "wide+narrow", "arm": arm, "seed": seed, "cpu_s": 36.0, "exchange": {}}
    return {**own, "outcomes": outcomes, "returns": {"alice": 0.0, "bob": 0.0}}


def test_exchanges_are_compared_with_none(capsys: pytest.CaptureFixture[str]) -> None:
    exchange_arms.show([exchanged("no exchange", 100, 0.5, 0.7), exchanged("full", 100, 0.6, 0.9)])
    printed = capsys.readouterr().out
    assert "| wide+narrow | full | 1 | 0.600 | 0.900 | +0.150 |  |" in printed
    assert "2 runs, 0.02 CPU hours." in printed


def test_the_faster_way_of_either_side_counts() -> None:
    def way(*ms: float) -> dict[str, Any]:
        return {"ms_per_token": list(ms), "peak_mib": 1.0}

    ours, peers = [way(2, 2, 9), way(1, 3, 2.5)], [way(9, 9, 9), way(4, 6, 10)]
    row = dict(zip(magrpo.WAYS, [*ours, *peers], strict=True))
    assert magrpo.faster(row, magrpo.OURS) == "ours"
    assert magrpo.ratios(row) == [3.0, pytest.approx(10 / 9), 3.0]


def test_ways_that_were_not_measured_are_left_out() -> None:
    row: dict[str, Any] = {"prompt": 64, "reply": 16, "group": 4}
    for way, ms in (("ours", 2.0), ("comlrl, LoRA", 7.0)):
        row[way] = {"ms_per_token": [ms], "peak_mib": 1.0}
    assert magrpo.ratios(row) == [3.5, 3.5, 3.5]
    assert magrpo.line_of(row) == "| 64 | 16 | 4 | 2.00 |  | 7.00 |  | 3.5 [3.5, 3.5] | 1 | 1 |"


def test_updates_with_forks_are_compared_in_pairs() -> None:
    rows: list[dict[str, Any]] = [
        {"arm": arm, "seed": seed, "cpu_s": cpu_s, "tokens": 100, "rows": 10}
        for arm, times in (("without forks", (2, 4)), ("with forks", (8, 12)))
        for seed, cpu_s in enumerate(times)
    ]
    printed = list(fork_updates.table(rows))
    assert "| without forks | 3.00 | 1,200 | 100 | 10 |" in printed
    assert printed[-1].endswith("takes 3.50 times [3.00, 4.00].")


def test_words_of_codewords_duet_are_one_token_each() -> None:
    (game,) = CODEWORDS.values()
    texts = ["Words: atom, bee\n", "<action>atom, bee</action>"]
    tokenizer = train_tokenizer(texts, game.words(), vocabulary=2048, most_phrases=0, least_uses=9)
    first, second = (
        [tokenizer.decode([token]) for token in tokenizer(text)["input_ids"]] for text in texts
    )
    assert second == ["<action>", "atom", ", ", "bee", "</action>"]
    assert first[-4:] == ["atom", ", ", "bee", "\n"]


def test_shapes_are_of_models_that_are_built() -> None:
    assert SHAPES.keys() <= CORPORA.keys()


def test_bots_are_drawn_by_the_request_alone() -> None:
    """Equal keys give equal replies, whatever was asked before; both kinds of bots come up."""
    game = "codewords_duet-v0"
    text = make(game, split="train", **fork_credit.GAMES[game]).reset(seed=3)[0]["player_0"]["text"]
    asked = [GenerationRequest(observation=text, version=None, key=(7, n)) for n in range(20)]

    async def replies(requests: list[GenerationRequest]) -> list[str]:
        engine = fork_credit.DrawnBots(game)
        return [(await engine.generate(request)).text for request in requests]

    forwards, backwards = asyncio.run(replies(asked)), asyncio.run(replies(asked[::-1]))
    assert forwards == backwards[::-1]
    assert len(set(forwards)) > 1
