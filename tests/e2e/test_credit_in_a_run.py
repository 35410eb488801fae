"""Credit settings in a real run: shares from replays, and a potential, reach what is climbed."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from srl_agents.credit.estimators import BASELINE_DECAY
from srl_agents.metrics import ConsoleView
from srl_agents.metrics.sinks import read_lines
from srl_agents.models.base_model import BaseModel
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode
from srl_agents.training.loop.run import LeagueTraining

pytestmark = pytest.mark.slow

RECIPE = """
name: credit
model: tiny
env: public_goods-v0
env_options: {rounds: 1, cuts_from: 0, max_retries: 0}
updates: 1
learners: [alice]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 4, max_new_tokens: 6}
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
        specs = training.parts.league.training_matches(0, 2, 4)
        training.parts.versions.publish()
        episodes = training.parts.matches.rollouts.play(specs)
        training.run()
        training.close()
    return training, read_lines(tmp_path / "run/metrics.jsonl")[0]["learners"]["alice"], episodes


def test_gradients_by_seat_are_measured_and_change_nothing(tmp_path: Path) -> None:
    """They are parts of one gradient: none is longer than all others and the whole together."""
    found = {}
    for name, on in (("with", True), ("without", False)):
        folder = tmp_path / name
        folder.mkdir()
        _, metrics, _ = run(
            folder, "evaluation.every=1", "evaluation.pairs=1", f"evaluation.seat_gradients={on}"
        )
        weights = folder / "run/adapters/alice/adapter_model.safetensors"
        found[name] = (metrics, weights.read_bytes())
    metrics = found["with"][0]
    norms = [metrics.pop(f"seat{seat}/grad_norm") for seat in range(4)]
    assert found["without"][0] == metrics
    assert found["without"][1] == found["with"][1]
    parts = [*norms, metrics["grad_norm"]]
    assert all(0 < part <= sum(parts) - part for part in parts)


def outcomes(gifts: list[float], mute: frozenset[int], tokens: float, factor: float) -> np.ndarray:
    """(4,) of one round of public goods, as the rules of the game put it.

    Args:
        gifts: what each seat gave, or what was given for it.
        mute: seats that made no move of their own: they forfeit, and all are paid the mean over them.
    """
    given = np.array(gifts)
    most = tokens * (1 + 3 * factor / 4)  # a lone free rider's
    points = (tokens - given + factor * given.sum() / 4) / most
    if not mute:
        return points
    return np.mean([np.where(np.arange(4) == seat, -1.0, points) for seat in mute], axis=0)


def shares_by_hand(episode: Episode, kind: str) -> list[float]:
    """Each seat's share, from the gifts, where idle seats leave theirs to the default: all tokens."""
    turns = [t.turns[0] for t in episode.trajectories]
    text = turns[0].observation.partition("You are player_0")[2]  # behind the rules
    tokens, factor = (
        float(text.partition(word)[2].split()[0].rstrip(".,"))
        for word in ("TOKENS ", "FACTOR by round: ")
    )
    mute = frozenset(seat for seat, t in enumerate(turns) if t.invalid)
    gifts = [
        tokens if t.invalid else float(t.reply.partition("<action>")[2].partition("<")[0])
        for t in turns
    ]

    def worth(playing: frozenset[int]) -> float:
        kept = [gift if seat in playing else tokens for seat, gift in enumerate(gifts)]
        return float(outcomes(kept, mute & playing, tokens, factor).sum())

    everyone = frozenset(range(4))
    paid = outcomes(gifts, mute, tokens, factor)
    assert [t.outcome for t in episode.trajectories] == pytest.approx(paid.tolist())
    if kind == "difference":
        return [(worth(everyone) - worth(everyone - {seat})) / 4 for seat in range(4)]
    added = np.zeros(4)
    for order in permutations(range(4)):
        for place, seat in enumerate(order):
            before = frozenset(order[:place])
            added[seat] += worth(before | {seat}) - worth(before)
    return (added / 24).tolist()


@pytest.mark.parametrize("kind", ["difference", "shapley"])
def test_what_a_seat_adds_to_public_goods_is_what_it_moves(tmp_path: Path, kind: str) -> None:
    """Shares of replays are those of the rules written out, where seats forfeit, too."""
    _, metrics, episodes = run(tmp_path, SHARE.format(kind))
    assert any(t.turns[0].invalid is None for e in episodes for t in e.trajectories)
    terms = [
        share - trajectory.outcome
        for e in episodes
        for share, trajectory in zip(shares_by_hand(e, kind), e.trajectories, strict=True)
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
        "credit={level: turn, estimator: role_baseline, potential: potentials:of}",
    )
    [credit] = training.parts.credit.state().values()  # of the one game
    state = credit["estimator"]
    for env_id, seat, learner, turn, mean, count in state["baselines"]:
        paid = [e.trajectories[seat].total_reward - (seat / 4 + 1.0) for e in episodes]
        assert (env_id, learner, turn, count) == ("public_goods-v0", "alice", 0, len(episodes))
        assert mean == pytest.approx((1 - BASELINE_DECAY ** len(paid)) * np.mean(paid))
    assert metrics["rows"] > 0


def test_a_turn_is_paid_for_what_it_tells_of_the_answer(tmp_path: Path) -> None:
    """Log-probabilities of the right answer by a plain pass of the base, which a new adapter equals."""
    _, metrics, episodes = run(
        tmp_path,
        "env=solve_and_verify-v0",
        "env_options={players: 1, problems: 1, difficulty: 1, max_retries: 0}",
        "opponents={}",
        "rollout={start_states: 2, group_size: 4, max_new_tokens: 16}",
        "credit={level: turn, estimator: information_gain}",
    )
    base = BaseModel.load("tiny", device="cpu")
    gains = []
    for episode in episodes:
        first, _, last = episode.trajectories[0].turns
        told = []
        for turn in (first, last):
            right = base.encode_reply(f"<action>{turn.references['answer']}</action>")
            ids = torch.tensor([[*turn.prompt_ids, *right]])
            with torch.no_grad():
                scores = base.model(ids).logits[0, len(turn.prompt_ids) - 1 : -1].log_softmax(-1)
            told.append(float(scores[range(len(right)), list(right)].sum()))
        gains += [(told[1] - told[0]) / 2] * 2  # a verdict answers nothing: the span's turns share
    assert len(set(gains)) > 1
    assert metrics["gain"] == pytest.approx(np.mean(gains), abs=1e-4)
    assert metrics["rows"] > 0
