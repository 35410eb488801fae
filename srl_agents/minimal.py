"""One GRPO update in one file: play matches, turn returns into advantages, take a step.

The production loop adds opponents from a league, engines with caches, several learners, checkpoints and
recovery. What it computes is what stands here: `tests/srl_agents/test_minimal.py` compares episodes,
advantages, gradients and weights of both, number for number.

    python -m srl_agents.minimal --env nim-v0 --updates 10

Source: group-relative advantages arXiv:2402.03300 section 4.1, without division by the deviation
arXiv:2503.20783; clipped token loss, averaged over all tokens of the batch, arXiv:2503.14476 equation 8.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

import srl_envs
from srl_agents.models.base_model import BaseModel
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn, WeightVersion
from srl_envs.api.episode import Recorder

STOP, BOT = "</action>", "bot:"
"""Text that ends a reply and stays in it; beginning of the agent id of a bot in a seat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """One learner, one game, bots as opponents."""

    env: str
    """Registered environment id."""
    env_options: dict[str, Any] = field(default_factory=dict)
    """Options of `srl_envs.make`."""
    opponent: str = "random"
    """Bot in every other seat."""
    start_states: int = 4
    """Groups per update."""
    group_size: int = 8
    """Attempts per start state; their mean return is the baseline."""
    max_new_tokens: int = 8
    """Most tokens per reply."""
    learning_rate: float = 1e-3
    """Learning rate of AdamW, constant."""
    clip: float = 0.2
    """Probability ratios are clipped to [1 - clip, 1 + clip]."""
    max_grad_norm: float = 1.0
    """Gradients of a larger norm are scaled down to it."""
    seed: int = 0
    """Root of all randomness."""


# --- play ------------------------------------------------------------------------------------


def schedule(settings: Settings, update: int, version: WeightVersion) -> list[MatchSpec]:
    """Matches of one update: attempts of a group share everything but their number.

    Args:
        settings: of the run.
        update: number of the update, from 0; start states differ between updates.
        version: what plays the learner's seat, which changes from group to group.
    """
    with closing(srl_envs.make(settings.env, **settings.env_options)) as env:
        seats = len(env.possible_agents)
    specs = []
    for state in range(settings.start_states):
        number = update * settings.start_states + state
        seed = int(np.random.default_rng([settings.seed, number]).integers(2**31))
        mine = number % seats
        agents = [str(version) if s == mine else BOT + settings.opponent for s in range(seats)]
        for attempt in range(settings.group_size):
            specs.append(
                MatchSpec(
                    env_id=settings.env, options=settings.env_options, seed=seed, split="train",
                    seats=tuple(agents), learner_seats=(mine,), purpose="bot",
                    cluster=f"train/{seed}", schedule=f"train/{version.learner}", number=number,
                    attempt=attempt,
                )
            )  # fmt: skip
    return specs


def play(base: BaseModel, version: WeightVersion, spec: MatchSpec, settings: Settings) -> Episode:
    """Play one match to its end.

    A turn is paid by every step from its own reply up to the seat's next one.
    """
    bots = {
        seat: srl_envs.make_bot(spec.env_id, agent.removeprefix(BOT), bot_seed(spec, seat))
        for seat, agent in enumerate(spec.seats)
        if agent.startswith(BOT)
    }
    turns: list[list[dict[str, Any]]] = [[] for _ in spec.seats]
    match = int(spec.match_id[:15], 16)
    with closing(srl_envs.make(spec.env_id, **spec.options)) as env:
        observations, _ = env.reset(seed=spec.seed, options={"split": spec.split})
        recorder = Recorder(env, observations)
        count = step = 0
        while env.agents:
            replies = {}
            for seat, agent in enumerate(env.possible_agents):
                if not observations[agent]["can_act"]:
                    continue
                text = observations[agent]["text"]
                turn: dict[str, Any] = {"turn_index": count, "step": step}
                if seat in bots:
                    turn["reply"] = bots[seat](text)
                else:
                    key = (settings.seed, match, seat, len(turns[seat]))
                    turn |= sample(base, text, key, settings.max_new_tokens)
                    turn["version"] = str(version)
                replies[seat] = turn["reply"]
                turns[seat].append({**turn, "observation": text, "reward": 0.0, "components": {}})
                count += 1
            result = env.step({env.possible_agents[s]: text for s, text in replies.items()})
            recorder.add(replies, result)
            step += 1
            observations, rewards, _, _, infos = result
            for seat, agent in enumerate(env.possible_agents):
                if seat in replies:
                    turns[seat][-1]["invalid"] = infos[agent]["invalid"]
                if turns[seat]:
                    turns[seat][-1]["reward"] += rewards[agent]
                    paid = turns[seat][-1]["components"]
                    for name, value in infos[agent]["reward_components"].items():
                        paid[name] = paid.get(name, 0.0) + value
    transcript = recorder.transcript()
    return Episode(
        spec=spec,
        trajectories=tuple(
            Trajectory(
                seat=seat, policy=spec.seats[seat], turns=tuple(Turn(**t) for t in turns[seat]),
                outcome=transcript.outcomes[seat], total_reward=transcript.rewards[seat],
                components=dict(transcript.components[seat]),
            )
            for seat in range(len(spec.seats))
        ),
        termination=(
            "forfeit" if transcript.forfeited else "truncated" if transcript.truncated else "ok"
        ),
        forfeited=transcript.forfeited,
        transcript_sha256=transcript.digest,
    )  # fmt: skip


@torch.no_grad()
def sample(
    base: BaseModel, observation: str, key: tuple[int, ...], max_new_tokens: int
) -> dict[str, Any]:
    """Sample a reply at temperature 1 by the inverse of the cumulative distribution; fields of a `Turn`.

    Args:
        base: with the learner's adapter active.
        observation: text that the reply answers.
        key: what the reply is for; equal keys get equal uniforms, whatever else is played.
        max_new_tokens: most tokens of the reply.
    """
    prompt = base.encode_prompt(observation)
    ids, logprobs = list[int](), list[float]()
    cache, feed, finish = None, list(prompt), "length"
    for uniform in uniforms(key, max_new_tokens):
        output = base.model(
            input_ids=torch.tensor([feed], device=base.device),
            past_key_values=cache,
            use_cache=True,
        )
        logprobs_V = torch.log_softmax(output.logits[0, -1].float(), dim=0)
        cdf_V = logprobs_V.exp().cumsum(dim=0)
        point = cdf_V[-1] * min(float(np.float32(uniform)), 1 - 2**-24)
        token = min(int(torch.searchsorted(cdf_V, point, right=True)), len(cdf_V) - 1)
        ids.append(token)
        logprobs.append(float(logprobs_V[token]))
        cache, feed = output.past_key_values, [token]
        if token in base.eos_token_ids or STOP in base.tokenizer.decode(ids[-len(STOP) :]):
            finish = "stop"
            break
    return {
        "reply": base.decode(ids), "prompt_ids": prompt, "completion_ids": tuple(ids),
        "logprobs": tuple(logprobs), "finish": finish,
    }  # fmt: skip


def uniforms(key: tuple[int, ...], count: int) -> list[float]:
    """The first ``count`` uniforms in [0, 1) of the stream that belongs to ``key``."""
    text = ",".join(map(str, key))
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
    return [float(u) for u in np.random.Generator(np.random.Philox(key=seed)).random(count)]


def bot_seed(spec: MatchSpec, seat: int) -> int:
    """Seed of a bot: the same start state and attempt give the same bot."""
    name = json.dumps([spec.cluster, spec.attempt, seat])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")


# --- credit ----------------------------------------------------------------------------------


def advantages(episodes: Sequence[Episode]) -> list[tuple[Turn, float]]:
    """Every turn of the learner with its episode's return minus the mean of its group.

    Left out are turns of groups in which all attempts earned the same, and refused replies whose advantage
    is positive: the game was won in spite of them, so they should not be repeated.
    """
    groups: dict[int, list[Trajectory]] = {}
    for episode in episodes:
        seat = episode.spec.learner_seats[0]
        groups.setdefault(episode.spec.number, []).append(episode.trajectories[seat])
    rows = []
    for group in groups.values():
        returns_G = np.array([trajectory.total_reward for trajectory in group])
        for trajectory, advantage in zip(group, returns_G - returns_G.mean(), strict=True):
            for turn in trajectory.turns if np.ptp(returns_G) > 0 else ():
                if advantage < 0 or not turn.invalid:
                    rows.append((turn, float(advantage)))
    return rows


# --- step ------------------------------------------------------------------------------------


def backward(base: BaseModel, rows: Sequence[tuple[Turn, float]], clip: float) -> float:
    """Add the gradient of the loss to the active adapter, row by row; returns the loss.

    The loss is the mean over all tokens of -min(r A, clip(r) A), where r is a token's probability now
    divided by its probability when it was sampled.
    """
    tokens = sum(len(turn.completion_ids) for turn, _ in rows)
    total = 0.0
    for turn, advantage in rows:
        ids = torch.tensor([[*turn.prompt_ids, *turn.completion_ids]], device=base.device)
        logits_TV = base.model(input_ids=ids).logits[0, len(turn.prompt_ids) - 1 : -1].float()
        logprobs_TV = torch.log_softmax(logits_TV, dim=1)
        logprobs_T = logprobs_TV.gather(1, ids[0, len(turn.prompt_ids) :, None])[:, 0]
        ratio_T = (logprobs_T - torch.tensor(turn.logprobs, device=base.device)).exp()
        clipped_T = ratio_T.clamp(1 - clip, 1 + clip)
        loss = -torch.min(ratio_T * advantage, clipped_T * advantage).sum() / tokens
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    return total


def update(
    base: BaseModel, optimizer: torch.optim.Optimizer, settings: Settings, number: int
) -> dict[str, float]:
    """Play, credit and step once; returns metrics of the update.

    Args:
        base: with the learner's adapter active.
        optimizer: of the adapter's parameters.
        settings: of the run.
        number: of the update, from 0.
    """
    name = str(base.active)
    version = base.freeze_adapter(name, number)
    episodes = [play(base, version, spec, settings) for spec in schedule(settings, number, version)]
    returns = [e.trajectories[e.spec.learner_seats[0]].total_reward for e in episodes]
    rows = advantages(episodes)
    metrics = {"reward": float(np.mean(returns)), "rows": float(len(rows))}
    optimizer.zero_grad()
    if rows:
        metrics["loss"] = backward(base, rows, settings.clip)
        parameters = list(base.trainable_parameters(name).values())
        metrics["grad_norm"] = float(clip_grad_norm_(parameters, settings.max_grad_norm))
        optimizer.step()
    base.forget(str(version))
    return metrics


def main() -> None:
    """Train an adapter of the shipped tiny model against a bot and print each update."""
    parser = argparse.ArgumentParser(description="GRPO on one game against a bot, in one file.")
    parser.add_argument("--env", default="nim-v0", help="environment id (default: %(default)s)")
    parser.add_argument("--opponent", default="random", help="bot (default: %(default)s)")
    parser.add_argument("--updates", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    options = parser.parse_args()
    settings = Settings(env=options.env, opponent=options.opponent, seed=options.seed)
    base = BaseModel.load("tiny")
    base.add_adapter("alice", settings.seed)
    base.activate("alice")
    parameters = base.trainable_parameters("alice").values()
    optimizer = torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=0.0)
    for number in range(options.updates):
        metrics = update(base, optimizer, settings, number)
        print(f"update {number + 1}:", *(f"{k} {v:.4f}" for k, v in metrics.items()))  # noqa: T201


if __name__ == "__main__":
    main()
