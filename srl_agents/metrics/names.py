"""The names of metrics, with their units; one name for one thing, in every sink. Statistics of rewards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srl_agents.records import Episode, Trajectory

MEANINGS = {
    "reward": "mean total reward per episode and learning seat (outcome + format)",
    "reward/mean": "mean total reward per episode (by seat, where a learner holds several)",
    "reward/std": "standard deviation of the total rewards",
    "reward/min": "lowest total reward",
    "reward/max": "highest total reward",
    "reward/NAME": "what a component brought in mean, by its weight (with a section rewards)",
    "reward/credited": "mean of the sum of all components, as credit sees it (with a section rewards)",
    "outcome": "mean outcome per episode and learning seat, in [-1, 1]",
    "format": "mean format component per episode and learning seat, in [-0.3, 0]",
    "invalid_share": "share of replies that were malformed or illegal",
    "reply_tokens": "mean tokens per reply, thoughts not counted",
    "thought_tokens": "mean tokens of the thoughts before a reply (with prompt.thoughts)",
    "cut_thoughts": "share of replies whose thoughts used up their budget (with prompt.thoughts)",
    "token_share": "share of the learner's reply tokens that it wrote in a seat (by seat)",
    "rows": "turns trained on",
    "version_lag": "mean steps between the version that wrote a row and the one that learns from it",
    "version_lag/max": "largest number of these steps at one row that was learned from (asynchronous)",
    "rows_lag:N": "rows that a version N steps older wrote (asynchronous)",
    "rows_too_old": "of them, rows above max_staleness, which were dropped (asynchronous)",
    "refilled": "start states played in place of flat groups (all learners, asynchronous)",
    "flat_groups": "share of groups (per seat) in which all attempts earned the same",
    "gain": "mean gain of the log-probability of the right answer by a turn, nats (information_gain)",
    "baseline": "mean running mean that returns were compared with (role_baseline and gae)",
    "beta": "weight of the team's term (unless credit.mode is individual)",
    "gamma": "weight of the rivals' term (unless credit.mode is individual)",
    "own_term": "mean of L, the seat's own total reward",
    "team_term": "mean of C, the team's mean outcome minus the seat's own",
    "rival_term": "mean of P, the standing among rivals",
    "importance_weight": "mean over tokens of the truncated importance weight",
    "teacher_kl": "mean over tokens of log p(student) - log p(teacher), nats",
    "unread_share": "share of turns whose prompt did not fit the model's context",
    "void": "episodes that our own machinery lost",
    "spent/tokens": "tokens that models wrote in all updates so far, branches included (run)",
    "spent/trained_tokens": "reply tokens of rows that learners stepped on so far, once per pass (run)",
    "spent/cpu_s": "seconds of processors of the run's processes so far, loading left out (run)",
    "loss": "TRL's loss",
    "kl": "mean over tokens of the divergence from the reference, nats (where kl_coef is not 0)",
    "kl/max": "largest divergence from the reference at one token, nats (where kl_coef is not 0)",
    "entropy": "mean over tokens of the policy's entropy, nats",
    "value/loss": "squared error of the value head, clipped as the policy is (ppo)",
    "value/explained_var": "1 - Var(return - value) / Var(return) over turns or tokens (ppo)",
    "pairs": "pairs of replies to one prompt; 0 takes no step (dpo)",
    "pairs_outcome": "of them, pairs ordered by who won instead of by credit (dpo)",
    "pair_margin": "mean worth of the chosen reply minus that of the rejected, reward units (dpo)",
    "length_difference": "mean tokens of the chosen reply minus those of the rejected (dpo)",
    "foreign_share": "share of pairs whose chosen reply another agent wrote (dpo)",
    "rewards/accuracies": "share of pairs whose chosen reply has the higher implicit reward (dpo)",
    "rewards/margins": "mean implicit reward of the chosen reply minus that of the rejected (dpo)",
    "rewards/chosen": "mean kl_coef * log-ratio of the chosen replies to the reference (dpo)",
    "rewards/rejected": "mean kl_coef * log-ratio of the rejected replies to the reference (dpo)",
    "reward_model/pairs": "pairs that the reward model was tested on, then learned from (run)",
    "reward_model/accuracy": "share of these pairs, new to it, that it ordered like the rules (run)",
    "reward_model/margin": "mean difference of its scores within these pairs (run)",
    "reward_model/loss": "TRL's loss on these pairs, before the step (run)",
    "reward_model/judgement": "its mean judgement of learners' replies, in [-1, 1] (run)",
    "shared": "episodes or pairs of others that the learner was shown (sharing)",
    "shared_from:NAME": "of them, those of one learner (sharing)",
    "shared_worth": "their mean total reward, or mean margin of pairs (sharing)",
    "shared_loss": "TRL's loss of the last step on them (sharing by sft or dpo)",
    "exchange/rows": "rows of others that joined the learner's batch, before the clip (sharing by rollouts)",
    "exchange/below": "share of them that were dropped because the reader finds them too unlikely",
    "exchange/above": "share of them that were dropped because the reader finds them likelier than they were",
    "exchange/ratio": "mean of s: probability per token of a row under its reader over that under its author",
    "exchange/gradient_share": "share of the absolute advantages of all tokens that rows of others have",
    "exchange/unmet": "rows of others at states that the learner did not meet",
    "exchange/unreadable": "rows of others whose text does not survive the change of tokens",
    "exchange/too_long": "rows of others that exceed max_new_tokens or the context in the reader's tokens",
    "exchange/too_old": "rows of others above max_staleness (asynchronous)",
    "exchange/no_capability": "pairs (author; game and seat) that were skipped because one never succeeded",
    "clip_fraction": "share of tokens whose probability ratio was clipped",
    "sampler_kl": "mean over tokens of |log p(trainer) - log p(sampler)|, nats",
    "grad_norm": "norm of the gradient before clipping; by seat, of the part that a seat's rows give "
    "(evaluation.seat_gradients)",
    "weight_norm": "norm of all weights that learn, after the update",
    "skipped": "1 where a fault let the learner take no step on its batch",
    "fault/NAME": "1 where a fault of this name was met in the update (`srl docs faults`)",
    "learning_rate": "of the update",
    "optimizer_mb": "MB of the optimizer's state before the step; 0 before the first",
    "gradient_agreement": "mean over pairs of learners of the cosine of their gradients",
    "sign_share": "share of gradient entries whose signs agree enough (selective)",
    "stepped": "1 if the learner took the step, 0 if it was passed over (selective)",
    "merge_weight": "the learner's weight in a merge (federated, asynchronous)",
    "merge_gap": "distance of merged adapters from the exact average, over its norm (federated)",
    "factor_gap": "the same if A and B were averaged apart (federated)",
    "staleness": "merges by others since the learner last took the shared adapter (asynchronous)",
    "score_start": "points per game against the starting version on eval seeds, in [0, 1]",
    "score_bot:NAME": "points per game against a bot on eval seeds, in [0, 1]",
    "score_AGENT": "points per game against one of evaluation.agents on eval seeds, in [0, 1]",
    "eval_format": "mean format component on eval seeds",
    "return_alone": "mean return in games of one seat on eval seeds, in [0, 1]; where an episode is right or "
    "wrong, the share of right ones",
    "start_return_alone": "the same of the starting version",
    "start_format": "mean format component of the starting version in the same matches",
    "game/NAME/METRIC": "the same metric in one of several games (with environments)",
    "game/NAME/share": "share of the learner's next matches that are of the game (with environments)",
    "game/NAME/level": "mean level of the learner's next matches in the game, from 0 (with levels)",
    "memory/allocated_gb": "GB that torch had allocated at most (GPU), or that the process holds (CPU)",
    "generate_s": "seconds spent playing (all learners), without branches",
    "forks/branches": "branches played (with forks)",
    "forks/tokens": "reply tokens sampled in branches, beside those of the matches that they leave",
    "forks_s": "seconds spent playing branches",
    "train_s": "seconds spent in updates (all learners)",
    "publish_s": "seconds spent on naming and installing new versions (all learners)",
    "wait_s": "seconds in which training waited for matches (asynchronous)",
    "overlap_s": "seconds in which generation and training both worked (asynchronous)",
    "queued": "matches of later updates that were played already (asynchronous)",
    "generation_idle_s": "seconds in which generation had nothing to play (asynchronous)",
    "tokens_per_s": "tokens sampled per second of play",
    "train_tokens_per_s": "tokens learned from per second of the phase update (not dpo)",
    "phase/NAME": "share of the time since the last record that a phase took (snapshot and checkpoint: the "
    "update before's)",
    "system/cpu_share": "share of this machine's cores that the process kept busy",
    "system/gpu_share": "share of the time since the last record in which the GPU computed (needs "
    "nvidia-ml-py)",
    "cache_share": "share of the prompt tokens since the last record that the engine had in its cache (not "
    "asynchronous)",
    "cache_share/possible": "the same for a cache without limit that is empty at every record",
    "prompt_tokens": "tokens of the prompts since the last record (not asynchronous)",
    "prompt_tokens/computed": "of them, those that the engine did not have in its cache",
    "prompt_tokens/host": "of them, those whose keys and values came back from host memory (engine.host_gib)",
    "prompt_tokens/disk": "of them, those that came back from files (engine.disk_gib)",
    "cache_blocks/stored": "blocks that came into vLLM's prefix cache since the last record "
    "(engine.kv_events)",
    "cache_blocks/removed": "blocks that had to make room there",
    "conductor/requests/NAME": "requests since the last record that went to this one of several engines "
    "(engine.url)",
    "conductor/known_share": "share of their prompts' blocks that the chosen engine must have had",
    "conductor/moved": "requests that another engine was asked for again, because one failed them",
    "requests_in_flight": "requests that the engine had at once, in the mean while it had any",
    "environments_s": "seconds of play in which the engine waited for environments",
    "first_token_s/p50": "seconds from a request to its reply's first token, in the middle (needs an engine "
    "that reports it: embedded or vLLM)",
    "first_token_s/p99": "the same, all but one in a hundred",
    "between_tokens_s/p50": "seconds from one token of a reply to the next, in the middle",
    "between_tokens_s/p99": "the same, all but one in a hundred",
    "batch_rows": "replies that get a token in one pass of the model, in the mean",
    "batch_share": "the same as a share of the places that a pass has (embedded engine)",
    "memory/host_free_gb": "GB that are free on the host, after the update",
    "memory/device_free_gb": "GB that are free on the GPU, after the update",
    "memory/reserved_gb": "GB that torch keeps of the GPU, after the update",
}

GROUPED = {
    "reward": "reward/mean",
    "kl": "kl/mean",
    "entropy": "policy/entropy",
    "clip_fraction": "policy/clip_fraction",
    "tokens_per_s": "throughput/tokens_per_sec",
}
"""What dashboards call a metric, so that it stands in one group with its like."""

CREDITED = "credited"
"""Name of the sum of all components, as credit sees it."""
REWARD_SPREAD = ("mean", "std", "min", "max")
"""Suffixes of ``reward/`` that are statistics, not names of components."""
_COMPONENT = "reward/"

WALL_CLOCK = (
    "generate_s", "forks_s", "train_s", "publish_s", "tokens_per_s", "memory/allocated_gb",
    "spent/cpu_s", "phase/count", "wait_s", "overlap_s", "generation_idle_s", "queued",
    "train_tokens_per_s", "system/cpu_share", "system/gpu_share", "cache_share", "memory/host_free_gb",
    "prompt_tokens/computed", "requests_in_flight", "environments_s",
    "first_token_s/p50", "first_token_s/p99", "between_tokens_s/p50", "between_tokens_s/p99",
    "batch_rows", "batch_share", "prompt_tokens/host", "prompt_tokens/disk",
    "memory/device_free_gb", "memory/reserved_gb", "phase/play", "phase/branch", "phase/judge",
    "phase/credit", "phase/update", "phase/publish", "phase/look", "phase/snapshot", "phase/checkpoint",
)  # fmt: skip
"""Metrics that differ between two equal runs."""


def component_means(values: Mapping[str, float]) -> dict[str, float]:
    """Name -> mean of every ``reward/NAME`` among a learner's metrics, `CREDITED` included."""
    return {
        name.removeprefix(_COMPONENT): value
        for name, value in values.items()
        if name.startswith(_COMPONENT) and name.removeprefix(_COMPONENT) not in REWARD_SPREAD
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """Metrics of one update: of the run as a whole, and of each learner."""

    update: int
    """Updates done so far."""
    updates: int
    """Updates of the whole run."""
    run: dict[str, float]
    learners: dict[str, dict[str, float]]

    def flat(self) -> dict[str, float]:
        """``name`` for the run, ``learner/name`` for learners, by the names of `GROUPED`."""
        rows = {GROUPED.get(name, name): value for name, value in self.run.items()}
        for learner, values in self.learners.items():
            rows |= {f"{learner}/{GROUPED.get(name, name)}": v for name, v in values.items()}
        return rows

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "update": self.update,
            "updates": self.updates,
            "run": self.run,
            "learners": self.learners,
        }


def reward_statistics(episodes: Iterable[Episode], policy: str) -> dict[str, float]:
    """How the total rewards of a policy's learning seats spread; see `MEANINGS`.

    Where the policy held different seats, each seat gets its own mean and spread, too: a game may
    favour who moves first.

    Args:
        episodes: of one update; those that our own machinery lost are left out.
        policy: a version id.

    Returns:
        ``reward/std``, ``reward/min``, ``reward/max``; per seat K ``seatK/reward/mean``, the same
        three, ``seatK/invalid_share``, ``seatK/token_share`` where it wrote tokens, and
        ``seatK/thought_tokens`` where it thought. Empty where it played nothing.
    """
    by_seat: dict[int, list[Trajectory]] = defaultdict(list)
    for episode in episodes:
        if episode.valid:
            for seat in episode.spec.learner_seats:
                if episode.spec.seats[seat] == policy:
                    by_seat[seat].append(episode.trajectories[seat])
    if not by_seat:
        return {}
    found = _spread([t for played in by_seat.values() for t in played])
    if len(by_seat) > 1:
        written = {seat: sum(map(_reply_tokens, played)) for seat, played in by_seat.items()}
        for seat, played in sorted(by_seat.items()):
            turns = [turn for t in played for turn in t.turns]
            own = {
                "reward/mean": float(np.mean([t.total_reward for t in played])),
                **_spread(played),
                "invalid_share": float(np.mean([t.invalid is not None for t in turns] or [False])),
            }
            if total := sum(written.values()):
                own["token_share"] = written[seat] / total
            if any(turn.thought_tokens for turn in turns):
                own["thought_tokens"] = float(np.mean([turn.thought_tokens for turn in turns]))
            found |= {f"seat{seat}/{name}": value for name, value in own.items()}
    return found


def _reply_tokens(played: Trajectory) -> int:
    return sum(len(turn.completion_ids) - turn.thought_tokens for turn in played.turns)


def _spread(played: Sequence[Trajectory]) -> dict[str, float]:
    rewards = np.array([t.total_reward for t in played])
    return {
        "reward/std": float(rewards.std()),
        "reward/min": float(rewards.min()),
        "reward/max": float(rewards.max()),
    }
