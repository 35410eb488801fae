"""What a run prints about its best and its last look."""

from __future__ import annotations

from typing import Any

from srl_agents.metrics.looks import best_and_last


def record(update: int, **learners: dict[str, float]) -> dict[str, Any]:
    return {"update": update, "learners": learners}


def test_the_best_look_is_named_where_it_lies_behind_the_last() -> None:
    records = [
        record(
            2, alice={"score_start": 0.5}, bob={"score_start": 0.4}, carol={"return_alone": 0.25}
        ),
        record(3, alice={"reward": 1.0}, bob={}, carol={}),
        record(
            4, alice={"score_start": 0.75}, bob={"score_start": 0.5}, carol={"return_alone": 0.5}
        ),
        record(6, alice={"score_start": 0.6}, bob={"score_start": 0.5}, dave={"score_start": 0.9}),
    ]
    assert best_and_last(records) == [
        "alice against its start: 60% of the points in the last look (update 6); its best was 75% of the "
        "points, at update 4",
        "bob against its start: 50% of the points in the last look (update 6), its best",
        "carol alone: a return of 0.50 in the last look (update 4), its best",
    ]
    assert best_and_last([]) == []


def test_games_rise_and_fall_by_themselves_and_one_that_is_not_trained_is_named() -> None:
    def looks(mean: float, nim: float, poker: float) -> dict[str, float]:
        shares = {"game/nim-v0/share": 1.0, "game/kuhn_poker-v0/share": 0.0}
        scores = {"game/nim-v0/score_start": nim, "game/kuhn_poker-v0/score_start": poker}
        return {"score_start": mean, **shares, **scores}

    records = [record(1, alice=looks(0.5, 0.4, 0.6)), record(2, alice=looks(0.6, 0.8, 0.4))]
    assert best_and_last(records) == [
        "alice against its start: 60% of the points in the last look (update 2), its best",
        "alice in nim-v0 against its start: 80% of the points in the last look (update 2), its best",
        "alice in kuhn_poker-v0 (not trained) against its start: 40% of the points in the last look "
        "(update 2); its best was 60% of the points, at update 1",
    ]
