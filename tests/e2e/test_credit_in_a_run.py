"""Credit settings in a real run: shares from replays, and a potential, reach what is climbed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from srl_agents.metrics import ConsoleView
from srl_agents.metrics.sinks import read_lines
from srl_agents.recipes.league_training import LeagueTraining
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode

pytestmark = pytest.mark.slow

RECIPE = """
name: credit
model: tiny
env: public_goods-v0
env_options: {rounds: 1, cuts_from: 0, max_retries: 0}
updates: 1
learners: [alice]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 8, max_new_tokens: 6}
opponents: {mirror: 1, live: 0, past: 0}
evaluation: {every: 0, final_pairs: 1, bots: []}
"""
SHARE = "credit={{mode: cooperative, cooperation: 1.0, team_share: {}}}"


def run(tmp_path: Path, *settings: str) -> tuple[LeagueTraining, dict[str, float], list[Episode]]:
    """One update; alice's metrics, and the episodes of training."""
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    with ConsoleView("run", 1, Console(quiet=True)) as view:
        training = LeagueTraining(load(LeagueRecipe, path, settings), tmp_path / "run", view)
        specs = training.league.training_matches(0, 2, 8)
        training.versions.name_live()
        episodes = training.runner.play(specs)
        training.run()
        training.close()
    return training, read_lines(tmp_path / "run/metrics.jsonl")[0]["learners"]["alice"], episodes


def points(gifts: list[float], tokens: float, factor: float) -> np.ndarray:
    """(4,) of one round of public goods, as the rules of the game put it."""
    given = np.array(gifts)
    return tokens - given + factor * given.sum() / 4


def share_by_hand(episode: Episode, kind: str) -> list[float]:
    """Each seat's share of the sum or mean of the outcomes, from its gift and the default."""
    turns = [t.turns[0] for t in episode.trajectories]
    told = turns[0].observation.partition("You are player_0")[2]  # behind the rules
    tokens, factor = (
        float(told.partition(word)[2].split()[0].rstrip(".,"))
        for word in ("TOKENS ", "FACTOR by round: ")
    )
    gifts = [
        tokens if t.invalid else float(t.reply.partition("<action>")[2].partition("<")[0])
        for t in turns
    ]
    most = points([0, tokens, tokens, tokens], tokens, factor)[0]
    assert [t.outcome for t in episode.trajectories] == pytest.approx(
        (points(gifts, tokens, factor) / most).tolist()
    )
    # a seat's gift moves the sum by (factor - 1) a token, whatever the others give
    more = [(gift - tokens) * (factor - 1) / most for gift in gifts]
    return [m / 4 for m in more] if kind == "difference" else more


@pytest.mark.parametrize("kind", ["difference", "shapley"])
def test_what_a_seat_adds_to_public_goods_is_its_own_gift(tmp_path: Path, kind: str) -> None:
    """The sum of points is linear in the gifts, so both shares depend on the seat's gift alone."""
    _, metrics, episodes = run(tmp_path, SHARE.format(kind))
    assert any(t.turns[0].invalid is None for e in episodes for t in e.trajectories)
    terms = [
        share - trajectory.outcome
        for e in episodes
        for share, trajectory in zip(share_by_hand(e, kind), e.trajectories, strict=True)
    ]
    assert metrics["team_term"] == pytest.approx(np.mean(terms), abs=1e-6)


def test_a_potential_pays_minus_itself_before_the_first_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One turn a game: its reward is the outcome less the potential of what the seat read there."""
    (tmp_path / "potentials.py").write_text("def of(text, seat):\n    return seat / 4 + 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    training, metrics, episodes = run(
        tmp_path,
        "credit={level: turn, estimator: role_baseline, baseline_decay: 0, potential: potentials:of}",
    )
    for env_id, seat, learner, turn, mean, count in training.credit.state()["baselines"]:
        paid = [e.trajectories[seat].total_reward - (seat / 4 + 1.0) for e in episodes]
        assert (env_id, learner, turn, count) == ("public_goods-v0", "alice", 0, len(episodes))
        assert mean == pytest.approx(np.mean(paid))
    assert metrics["rows"] > 0
