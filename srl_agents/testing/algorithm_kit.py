"""Conformance kit for algorithms, on a small model with random weights that is made on the spot.

from srl_agents.testing import check_algorithm

def test_my_algorithm(tmp_path):
    check_algorithm(MySettings(algorithm="my_package.mine:MySettings"), tmp_path)
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.settings import CreditSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn, WeightVersion
from srl_agents.testing.advice import Promise, hold, require
from srl_agents.trainers.algorithms import ALGORITHMS, AlgorithmSettings, Plan
from srl_agents.trainers.experience import Experience
from srl_agents.trainers.learner import AdapterLearner
from srl_envs.errors import ShapeError
from srl_envs.reading.settings import build, dump

LEARNER, OTHER = "alice", "bob"
_POLICY = str(WeightVersion(LEARNER, 0, "0" * 16))
_GROUPS, _ATTEMPTS = 3, 4
_PROMPT_TOKENS = 12
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Bench:
    """Model and settings on which an algorithm is tried."""

    settings: AlgorithmSettings
    credit: CreditSettings
    model: Path

    def begin(self) -> Try:
        """A fresh base with two learners, of which one takes part."""
        base = BaseModel.load(self.model, lora_rank=4, device="cpu")
        learners = {
            name: self.settings.make_learner(name, base, temperature=1.0, seed=7)
            for name in (LEARNER, OTHER)
        }
        credit = CreditAssigner(self.credit)
        experience = self.settings.make_experience(learners, credit, lambda _: None)
        return Try(base, learners[LEARNER], credit, experience)


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt at training, from the same beginning as every other."""

    base: BaseModel
    learner: AdapterLearner[Any]
    credit: CreditAssigner
    experience: Experience

    def batch(self, update: int) -> Any:
        """Training data of an update."""
        played = episodes(self.base, update)
        batch, _ = self.experience.batch(LEARNER, played, _POLICY)
        require(
            batch is not None,
            "attempts that earned 0 and 1 make no batch; if the algorithm needs other credit, pass it",
        )
        return batch

    def update(self, number: int) -> dict[str, float]:
        """Take all steps of an update."""
        return self.learner.update(self.batch(number))

    def weights(self, name: str = LEARNER) -> Tensors:
        """Copies of the adapter's tensors, so that a later step does not change them."""
        return {key: t.clone() for key, t in self.base.adapter_tensors(name).items()}


def check_algorithm(
    settings: AlgorithmSettings, folder: Path, *, credit: CreditSettings | None = None
) -> None:
    """Hold an algorithm to everything that the training loop relies on; some seconds on one core.

    Args:
        settings: of the algorithm, with a learning rate that moves weights in two updates.
        folder: for the model; made if absent.
        credit: what its experience needs where that is not the default.

    Raises:
        ConformanceError: names the promise that was broken.
    """
    model = random_model.build(folder / "model")
    bench = Bench(settings, credit or CreditSettings(), model)
    hold(f"algorithm {settings.algorithm!r}", PROMISES, bench)


def episodes(base: BaseModel, update: int, *, valid: bool = True) -> list[Episode]:
    """Attempts at random prompts by the learner's weights, sampled once and for all.

    Args:
        base: computes the log-probabilities of the replies.
        update: changes the tokens.
        valid: False: none could be finished.
    """
    rng = np.random.default_rng([update, 20])
    low, high = 3, base.model.config.get_text_config().vocab_size
    made = []
    for group in range(_GROUPS):
        prompt = tuple(rng.integers(low, high, _PROMPT_TOKENS).tolist())
        for attempt in range(_ATTEMPTS):
            reply = tuple(rng.integers(low, high, 3 + attempt % 2).tolist())
            reward = float(attempt % 2)
            said = _turn(prompt, reply, _logprobs(base, prompt, reply), reward)
            made.append(_episode(group, attempt, said, reward, valid=valid))
    return made


# --- the promises ------------------------------------------------------------------------------


def _check_settings(bench: Bench) -> None:
    settings = bench.settings
    fault = ALGORITHMS.fault(type(settings))
    require(not fault, f"{type(settings).__name__} {fault}")
    back = build(type(settings), json.loads(json.dumps(dump(settings))), "settings")
    require(back == settings, f"written down and read back, {settings} are {back}")
    settings.check(Plan(updates=1, group_size=4, scale_advantages=False, credit=bench.credit))


def _check_batch(bench: Bench) -> None:
    begun = bench.begin()
    batch = begun.batch(0)
    require(batch.learner == LEARNER, f"a batch for {LEARNER!r} names {batch.learner!r}")
    require(batch.rows > 0, "a batch has no rows; give None where there is nothing to learn from")
    for what, played in (
        ("no episodes", []),
        ("only void episodes", episodes(begun.base, 0, valid=False)),
    ):
        batch, _ = begun.experience.batch(LEARNER, played, _POLICY)
        require(batch is None, f"{what} make a batch of {batch and batch.rows} rows")


def _check_gradient(bench: Bench) -> None:
    begun = bench.begin()
    learner, before = begun.learner, begun.weights()
    first = learner.steps(begun.batch(0))[0]
    metrics = learner.compute_gradients(first)
    for name in ("loss", "grad_norm", "learning_rate"):
        require(np.isfinite(metrics[name]), f"{name} is {metrics[name]}")
    require(metrics["grad_norm"] > 0, "the gradient is 0 where attempts earned 0 and 1")
    require(_equal(begun.weights(), before), "compute_gradients moved the weights")
    require(learner.version == 0, "compute_gradients counted a version")
    learner.apply_gradients()
    require(not _equal(begun.weights(), before), "apply_gradients moved nothing")
    require(learner.version == 1, f"one step makes {learner.version} versions")
    try:
        learner.compute_gradients(replace(first, learner=OTHER))
    except ShapeError:
        return
    require(False, f"a batch of {OTHER!r} was taken for one of {LEARNER!r}")


def _check_repetition(bench: Bench) -> None:
    one, two = bench.begin(), bench.begin()
    for update in range(2):
        one.update(update)
    torch.rand(5)  # what others draw from the process's generator must not matter
    np.random.rand(5)  # noqa: NPY002
    for update in range(2):
        two.update(update)
    require(_equal(one.weights(), two.weights()), "equal seeds and batches give unequal weights")


def _check_neighbours(bench: Bench) -> None:
    begun = bench.begin()
    other = begun.weights(OTHER)
    before = _generators()
    begun.update(0)
    require(_equal(begun.weights(OTHER), other), f"{OTHER!r} moved while {LEARNER!r} learned")
    require(_generators() == before, "an update draws from the process's own generators")


def _check_resume(bench: Bench) -> None:
    whole, again = bench.begin(), bench.begin()
    whole.update(0)
    tensors, values = whole.learner.state()
    tensors = {key: tensor.clone() for key, tensor in tensors.items()}
    weights, text = whole.weights(), json.dumps(values)
    whole.update(1)
    again.base.set_adapter_tensors(LEARNER, weights)
    again.learner.load_state(tensors, json.loads(text))
    require(
        again.learner.version == int(values["version"]), "a resumed learner has another version"
    )
    again.update(1)
    require(_equal(whole.weights(), again.weights()), "a resumed run goes on otherwise")


PROMISES = {
    "settings": Promise(
        _check_settings,
        "make the settings a frozen dataclass of plain values; check() may refuse a recipe only for "
        "what the algorithm cannot follow.",
    ),
    "batch": Promise(
        _check_batch,
        "make_experience gives batches of the learner that it was asked for, and None where nothing "
        "valid was played.",
    ),
    "gradient": Promise(
        _check_gradient,
        "put the gradient of the whole batch on the learner's own parameters in _backward, and let the "
        "base class check and step.",
    ),
    "repetition": Promise(
        _check_repetition,
        "draw from generators that are made of the learner's seed and version, and from nothing else.",
    ),
    "neighbours": Promise(
        _check_neighbours,
        "touch no other learner's tensors and no generator of the process; see "
        "srl_agents.trainers.learner.global_generators_kept.",
    ),
    "resume": Promise(
        _check_resume,
        "hand what learns beside the adapter to the base class as extras, and remember nothing else "
        "between updates.",
    ),
}


# --- what was played ---------------------------------------------------------------------------


def _turn(
    prompt: tuple[int, ...], reply: tuple[int, ...], logprobs: tuple[float, ...], reward: float
) -> Turn:
    return Turn(
        turn_index=0, observation="", reply="", invalid=None, reward=reward, components={},
        prompt_ids=prompt, completion_ids=reply, logprobs=logprobs, version=_POLICY,
    )  # fmt: skip


def _episode(group: int, attempt: int, said: Turn, reward: float, *, valid: bool) -> Episode:
    spec = MatchSpec(
        env_id="none-v0", seed=group, split="train", seats=(_POLICY,), learner_seats=(0,),
        schedule="kit", number=group, attempt=attempt,
    )  # fmt: skip
    seat = Trajectory(
        seat=0, policy=_POLICY, turns=(said,), outcome=reward, total_reward=reward,
        components={"format": 0.0},
    )  # fmt: skip
    return Episode(spec=spec, trajectories=(seat,), termination="ok" if valid else "void")


@torch.no_grad()
def _logprobs(base: BaseModel, prompt: Sequence[int], reply: Sequence[int]) -> tuple[float, ...]:
    """Log-probabilities of a reply under the frozen base, which are those of a fresh adapter."""
    ids = torch.tensor([[*prompt, *reply]])
    with base.reference():
        logits = base.model(input_ids=ids).logits[0, len(prompt) - 1 : -1].float()
    said = logits.log_softmax(-1).gather(-1, torch.tensor(reply)[:, None])[:, 0]
    return tuple(said.tolist())


def _generators() -> list[Any]:
    """States of the process's own generators."""
    numpy: Any = np.random.get_state()  # noqa: NPY002 - looked at, not used
    return [
        torch.random.get_rng_state().tolist(),
        numpy[1].tolist(),
        numpy[2],
        random.getstate(),
    ]


def _equal(one: Tensors, other: Tensors) -> bool:
    return set(one) == set(other) and all(torch.equal(one[key], other[key]) for key in one)
