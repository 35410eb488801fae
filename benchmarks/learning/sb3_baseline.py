"""MaskablePPO learns connect four on a small board against the bot that wins or blocks.

    python -m benchmarks.learning.sb3_baseline [--seeds 0 1] [--steps 150000] [--json FILE] [--model FILE]

The learner sits in seat 0 of the numeric twin (`srl_envs.wrappers.numeric`), the bot in seat 1; who
moves first is drawn from the seed. It is trained on train seeds and looked at on eval seeds, through
text: the model is made a ``text -> text`` policy and `srl_envs.play` plays mirrored pairs, one seed
in both seats. The interval is Student's t over the pairs' means. Needs ``pip install "srl-envs[sb3]"``.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import srl_envs
from srl_envs.registry import Policy
from srl_envs.wrappers import numeric

ENV = "connect_four-v0"
BOARD: dict[str, Any] = {"rows": 4, "cols": 5, "k": 3}
OPPONENT = "middle"
TRAINING: dict[str, Any] = {
    "n_steps": 256,
    "batch_size": 256,
    "n_epochs": 4,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "ent_coef": 0.01,
    "policy_kwargs": {"net_arch": [64, 64]},
}
COPIES = 4
"""Environments that a batch is collected from."""

T_95 = {31: 2.040, 63: 1.998, 127: 1.979, 199: 1.972, 255: 1.969}
"""Student's t, 97.5 % quantile, by degrees of freedom."""

Look = dict[str, float]
"""Steps so far, points per game against a bot, and half the width of the 95 % interval."""


def compare(policy: Policy, opponent: str, pairs: int) -> tuple[float, float]:
    """Points per game against a bot over mirrored pairs on eval seeds, and half the 95 % interval."""
    env: Any = srl_envs.make(ENV, split="eval", **BOARD)
    means = []
    for seed in range(pairs):
        points = 0.0
        for seat in (0, 1):
            bot = srl_envs.make_bot(ENV, opponent, seed=seed)
            points += srl_envs.play(env, {seat: policy, 1 - seat: bot}, seed=seed).outcomes[seat]
        means.append(points / 2)
    half = T_95[pairs - 1] * float(np.std(means, ddof=1)) / pairs**0.5
    return float(np.mean(means)), half


def learner(seed: int) -> Any:
    """An untrained model and the environments that it learns in."""
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    torch.set_num_threads(1)

    def build() -> Any:
        return numeric.make_single(ENV, opponents={1: OPPONENT}, **BOARD)

    copies = DummyVecEnv([build] * COPIES)
    return MaskablePPO("MlpPolicy", copies, seed=seed, device="cpu", **TRAINING)


def text_twin(model: Any) -> Policy:
    """The model as a text policy that takes its likeliest action."""
    features = numeric.features_of(srl_envs.make(ENV, **BOARD))
    return numeric.text_policy(numeric.sb3_chooser(model), features)


def train(seed: int, steps: int, looks: int, pairs: int) -> tuple[Any, list[Look], Look]:
    """Train one model.

    Returns:
        The model, the looks on the way, and wall and CPU seconds of the training itself.
    """
    model = learner(seed)
    curve: list[Look] = []
    spent = {"wall_s": 0.0, "cpu_s": 0.0}
    for look in range(looks + 1):
        if look:
            wall, cpu = time.perf_counter(), time.process_time()
            model.learn(steps // looks, reset_num_timesteps=False)
            spent["wall_s"] += time.perf_counter() - wall
            spent["cpu_s"] += time.process_time() - cpu
        points, half = compare(text_twin(model), OPPONENT, pairs)
        curve.append({"steps": model.num_timesteps, "points": points, "half": half})
        print(
            f"seed {seed}: {model.num_timesteps:7d} steps, {points:+.3f} +- {half:.3f} points per game "
            f"against {OPPONENT}, {spent['cpu_s']:.0f} CPU s, {spent['wall_s']:.0f} s",
            flush=True,
        )
    return model, curve, spent


def main() -> None:
    """Train each seed, print its curve and its games against every bot but the held-out one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=150_000, help="of the learner, per seed")
    parser.add_argument("--looks", type=int, default=6, help="comparisons on the way")
    parser.add_argument("--pairs", type=int, default=64, choices=[n + 1 for n in T_95])
    parser.add_argument("--final-pairs", type=int, default=200, choices=[n + 1 for n in T_95])
    parser.add_argument("--model", help="save the model of the first seed here")
    parser.add_argument("--json", help="also write the numbers to this file")
    options = parser.parse_args()
    runs = []
    for seed in options.seeds:
        model, curve, spent = train(seed, options.steps, options.looks, options.pairs)
        final = {}
        for bot in ("random", OPPONENT, "strong"):
            points, half = compare(text_twin(model), bot, options.final_pairs)
            final[bot] = {"points": points, "half": half}
            print(f"seed {seed}: {points:+.3f} +- {half:.3f} against {bot}", flush=True)
        runs.append({"seed": seed, "curve": curve, "final": final, **spent})
        if options.model and seed == options.seeds[0]:
            model.save(options.model)
    if options.json:
        record = {
            "env": ENV,
            "options": BOARD,
            "opponent": OPPONENT,
            "training": TRAINING,
            "python": platform.python_version(),
            "sb3-contrib": metadata.version("sb3-contrib"),
            "torch": metadata.version("torch"),
            "runs": runs,
        }
        Path(options.json).write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
