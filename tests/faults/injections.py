"""The faults that are injected into runs, and what must come of each: one table, for test and page."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from srl_agents import checkpoints
from srl_agents.credit.batches import of_age
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics import JSONLines
from srl_agents.metrics.names import reward_statistics
from srl_agents.models.sources import random_model
from srl_agents.records import TrainingBatch
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.training import supervision
from srl_agents.training.faults import stalled, survival, vital_signs
from srl_agents.training.faults.survival import Survival
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.loop import phases, state
from srl_agents.training.loop.run import LeagueTraining
from srl_envs.errors import PolicyError
from tests.faults.stage import Stage, in_child

REFUSED = "refused"
"""Handling of a user's mistake, not a run's fault: one line in the first second, exit code 2."""


@dataclass(frozen=True)
class Injection:
    """One fault, and what must come of it."""

    how: str
    """What is broken."""
    fault: str
    """Its name in the run's ``faults.jsonl``; for a refusal, what the message must hold."""
    handling: str
    code: int
    """Exit code of ``srl train``."""
    exported: bool
    """Whether the run leaves adapters."""
    run: Callable[[Stage], int]


TABLE: list[Injection] = []


def injection(
    how: str, fault: str, handling: str, code: int, *, exported: bool | None = None
) -> Callable[[Callable[[Stage], int]], None]:
    """Put a run with one thing broken into the table."""

    def keep(run: Callable[[Stage], int]) -> None:
        made = code == 0 if exported is None else exported
        TABLE.append(Injection(how, fault, handling, code, made, run))

    return keep


def _nan_gradient(learner: AdapterLearner[Any], loss: float) -> float:
    for gradient in learner.gradients.values():
        gradient.fill_(float("nan"))
    return loss


def _times(factor: float) -> Callable[[AdapterLearner[Any], float], float]:
    def scale(learner: AdapterLearner[Any], loss: float) -> float:
        for gradient in learner.gradients.values():
            gradient.mul_(factor)
        return loss

    return scale


def _nan_loss(_: AdapterLearner[Any], __: float) -> float:
    return float("nan")


# --- loss and gradient -----------------------------------------------------------------------------


@injection("the loss of one batch is NaN", "loss_not_finite", "skip_batch", 0)
def _(stage: Stage) -> int:
    stage.after_backward(_nan_loss, 1)
    return stage.train()


@injection("the loss of every batch is infinite", "loss_not_finite", "stop", 3)
def _(stage: Stage) -> int:
    stage.after_backward(lambda *_: float("inf"))
    stage.patch.setattr(survival, "MOST_SKIPS", 1)
    return stage.train()


@injection("every loss is NaN, and one skip ends the run", "loss_not_finite", "stop", 3)
def _(stage: Stage) -> int:
    stage.after_backward(_nan_loss)
    return stage.train("survival.policies={loss_not_finite: stop}")


@injection("the loss of one batch is NaN, to be rolled back", "loss_not_finite", "roll_back", 0)
def _(stage: Stage) -> int:
    stage.after_backward(_nan_loss, 2)
    return stage.train("survival.policies={loss_not_finite: roll_back}")


@injection("the loss is a billion times the usual", "loss_exploded", "skip_batch", 0)
def _(stage: Stage) -> int:
    stage.after_backward(lambda _, loss: 1e9, 5)
    return stage.train("updates=5")


@injection("the gradient of one batch is NaN", "gradient_not_finite", "skip_batch", 0)
def _(stage: Stage) -> int:
    stage.after_backward(_nan_gradient, 1)
    return stage.train()


@injection("one of two learners has a gradient of NaN", "gradient_not_finite", "skip_batch", 0)
def _(stage: Stage) -> int:
    stage.after_backward(_nan_gradient, 1)
    return stage.train("learners=[alice, bob]", "coordination={kind: synchronized}", "updates=1")


@injection("the gradient of one batch is NaN, to end the run", "gradient_not_finite", "stop", 3)
def _(stage: Stage) -> int:
    stage.after_backward(_nan_gradient, 2)
    return stage.train("survival.policies={gradient_not_finite: stop}")


@injection("the gradient is a million times the usual", "gradient_exploded", "skip_batch", 0)
def _(stage: Stage) -> int:
    stage.after_backward(_times(1e6), 5)
    return stage.train("updates=5")


@injection("the same, with a recipe that only reports it", "gradient_exploded", "go_on", 0)
def _(stage: Stage) -> int:
    stage.after_backward(_times(1e6), 5)
    return stage.train("updates=5", "survival.policies={gradient_exploded: go_on}")


# --- weights ---------------------------------------------------------------------------------------


@injection("`training.learning_rate=1e38`", "weights_broken", "stop", 3)
def _(stage: Stage) -> int:
    return stage.train("training.learning_rate=1e38", "survival.most_roll_backs=1")


@injection("`training.learning_rate=1e6`", "weights_exploded", "stop", 3)
def _(stage: Stage) -> int:
    return stage.train("training.learning_rate=1e6", "survival.most_roll_backs=1")


@injection("weights are NaN, once", "weights_broken", "roll_back", 0)
def _(stage: Stage) -> int:
    stage.before_step(lambda weight: weight.fill_(float("nan")), 2)
    return stage.train()


@injection("weights are a thousand times what they were, once", "weights_exploded", "roll_back", 0)
def _(stage: Stage) -> int:
    stage.before_step(lambda weight: weight.mul_(1000).add_(1), 2)
    return stage.train()


@injection("the same, to end the run", "weights_exploded", "stop", 3)
def _(stage: Stage) -> int:
    stage.before_step(lambda weight: weight.mul_(1000).add_(1), 2)
    return stage.train("survival.policies={weights_exploded: stop}")


@injection(
    "the same, with a recipe that only reports it", "weights_exploded", "go_on", 0, exported=False
)
def _(stage: Stage) -> int:
    stage.before_step(lambda weight: weight.mul_(1000).add_(1), 2)
    return stage.train("survival.policies={weights_exploded: go_on}")


# --- replies, reward, divergence --------------------------------------------------------------------


def _silence(stage: Stage, once: bool) -> None:
    """Report that every reply was refused in update 2, as for a broken learner."""
    finding = [
        Finding(fault="replies_refused", message="all 400 replies", learner="alice", since=2)
    ]

    def observe(_: object, update: int, *__: object, **___: object) -> list[Finding]:
        if update != 2:
            return []
        asked.append(update)
        return [] if once and len(asked) > 1 else finding

    asked: list[int] = []
    stage.patch.setattr(stalled.CollapseWatch, "observe", observe)


@injection("a random model, all of whose replies are refused", "nothing was learned", "say so", 1)
def _(stage: Stage) -> int:
    return stage.train("training={algorithm: grpo}", "updates=1", "env=nim-v0", "env_options={}",
                       "rollout.max_new_tokens=2", "scale_advantages=false")  # fmt: skip


@injection("the same, with `survival.allow_nothing_learned`", "", "go_on", 0)
def _(stage: Stage) -> int:
    return stage.train("training={algorithm: grpo}", "updates=1", "env=nim-v0", "env_options={}",
                       "rollout.max_new_tokens=2", "survival.allow_nothing_learned=true")  # fmt: skip


@injection("no reply was ever accepted", "never_accepted", "stop", 3)
def _(stage: Stage) -> int:
    stage.patch.setattr(stalled, "SILENT_UPDATES", 2)
    return stage.train()


@injection(
    "a learner's replies are all refused, and were not before", "replies_refused", "roll_back", 0
)
def _(stage: Stage) -> int:
    _silence(stage, once=True)
    return stage.train()


@injection("the same after every roll-back", "replies_refused", "stop", 3)
def _(stage: Stage) -> int:
    _silence(stage, once=False)
    return stage.train("survival.most_roll_backs=1")


@injection(
    "the same, with a recipe that only reports it", "replies_refused", "go_on", 0, exported=False
)
def _(stage: Stage) -> int:
    _silence(stage, once=False)
    return stage.train("survival.policies={replies_refused: go_on}")


@injection("rewards fall far below all earlier ones", "reward_collapsed", "roll_back", 0)
def _(stage: Stage) -> int:
    whole, count = reward_statistics, [0]

    def lower(*arguments: Any) -> dict[str, float]:
        count[0] += 1
        return whole(*arguments) | ({"reward": -9.0} if count[0] == 3 else {})

    stage.patch.setattr(phases, "reward_statistics", lower)
    stage.patch.setattr(vital_signs, "PATIENCE", 1)
    return stage.train("updates=3")


@injection(
    "the divergence from the reference is above its limit",
    "kl_blown_up",
    "skip_batch",
    0,
    exported=False,
)
def _(stage: Stage) -> int:
    stage.patch.setattr(vital_signs, "KL_ABOVE", 1e-12)
    return stage.train("training.kl_coef=0.1", "training.iterations=2",
                       "survival.policies={kl_blown_up: skip_batch}")  # fmt: skip


@injection("the same after every roll-back", "kl_blown_up", "stop", 3)
def _(stage: Stage) -> int:
    stage.patch.setattr(vital_signs, "KL_ABOVE", 1e-12)
    return stage.train("training.kl_coef=0.1", "training.iterations=2",
                       "survival.most_roll_backs=1")  # fmt: skip


@injection("entropy is below its limit", "entropy_collapsed", "go_on", 0)
def _(stage: Stage) -> int:
    stage.patch.setattr(vital_signs, "PATIENCE", 1)
    stage.patch.setattr(vital_signs, "ENTROPY_BELOW", 99)
    return stage.train()


@injection("entropy is below its limit, to end the run", "entropy_collapsed", "stop", 3)
def _(stage: Stage) -> int:
    stage.patch.setattr(vital_signs, "PATIENCE", 1)
    stage.patch.setattr(vital_signs, "ENTROPY_BELOW", 99)
    return stage.train("survival.policies={entropy_collapsed: stop}")


@injection(
    "the engine plays with a filter that the trainer does not have",
    "sampler_differs",
    "go_on",
    0,
)
def _(stage: Stage) -> int:
    stage.patch.setattr(vital_signs, "SAMPLER_KL_ABOVE", 0.05)
    return stage.train("rollout.top_k=2")


@injection("rows are 99 steps old", "rollouts_stale", "skip_batch", 0)
def _(stage: Stage) -> int:
    whole, older = of_age, iter([99])

    def aged(batch: TrainingBatch, now: int, most: int | None) -> Any:
        return whole(batch, now + next(older, 0), most)

    stage.patch.setattr(phases, "of_age", aged)
    return stage.train()


# --- memory ----------------------------------------------------------------------------------------

NO_MEMORY = RuntimeError(
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
)


@injection("memory runs out in passes of more than 4 rows", "out_of_memory", "halve_micro_batch", 0)
def _(stage: Stage) -> int:
    def fits(learner: AdapterLearner[Any], loss: float) -> float:
        if learner.micro_batch_rows > 4:
            raise NO_MEMORY
        return loss

    stage.after_backward(fits)
    return stage.train()


@injection("memory runs out with one row per pass", "out_of_memory", "stop", 3)
def _(stage: Stage) -> int:
    stage.raise_in(PPOLearner, "_backward", NO_MEMORY)
    return stage.train()


@injection("memory of a GPU runs out, to end the run", "out_of_memory", "stop", 3)
def _(stage: Stage) -> int:
    stage.raise_in(PPOLearner, "_backward", torch.OutOfMemoryError("CUDA out of memory."))
    return stage.train("survival.policies={out_of_memory: stop}")


NO_ROOM = MemoryError("keys and values")


@injection("memory runs out in play, in update 2", "play_out_of_memory", "halve_play", 0)
def _(stage: Stage) -> int:
    stage.raise_in(TransformersEngine, "generate_together", NO_ROOM, 2)
    return stage.train()


@injection("memory runs out in play of one match at a time", "play_out_of_memory", "stop", 3)
def _(stage: Stage) -> int:
    stage.raise_in(TransformersEngine, "generate_together", NO_ROOM)
    return stage.train()


@injection("memory runs out in play, to end the run", "play_out_of_memory", "stop", 3)
def _(stage: Stage) -> int:
    stage.raise_in(TransformersEngine, "generate_together", NO_ROOM, 2)
    return stage.train("checkpoint_every=9", "survival.policies={play_out_of_memory: stop}")


@injection("another program took the host's memory", "host_memory_low", "stop", 3)
def _(stage: Stage) -> int:
    stage.patch.setattr(survival, "MIN_FREE_MEMORY_MIB", 1e9)
    return stage.train()


# --- engines, waits --------------------------------------------------------------------------------


@injection("an engine does not answer", "engine_hung", "stop", 3)
def _(stage: Stage) -> int:
    async def hang(*_: object) -> None:
        import asyncio

        await asyncio.sleep(3600)

    stage.patch.setattr(TransformersEngine, "generate_together", hang)
    return stage.train("survival.reply_deadline_s=0.02")


@injection("writing a checkpoint never ends", "phase_hung", "stop", 3)
def _(stage: Stage) -> int:
    stage.patch.setattr(state.Gathered, "write", lambda *_, **__: time.sleep(3600))
    return in_child(lambda: stage.train("survival.phase_deadline_s=5"))


@injection("after a fault, closing never ends", "loss_not_finite", "stop", 3)
def _(stage: Stage) -> int:
    stage.after_backward(_nan_loss)
    stage.patch.setattr(LeagueTraining, "close", lambda *_: time.sleep(3600))
    stage.patch.setattr(survival, "MOST_SKIPS", 0)
    stage.patch.setattr(supervision, "CLOSE_DEADLINE_S", 0.2)
    return in_child(stage.train)


@injection("no sandbox or environment finishes a match", "matches_lost", "stop", 3)
def _(stage: Stage) -> int:
    from srl_agents.rollouts.match import Match

    def broken(*_: object) -> None:
        raise PolicyError("no policy can play")

    stage.patch.setattr(Match, "_until_asked", broken)
    return stage.train()


# --- disk ------------------------------------------------------------------------------------------


@injection("the disk is full when metrics are written", "disk_full", "stop", 3)
def _(stage: Stage) -> int:
    def full(sink: JSONLines, *_: object) -> None:
        with Path("/dev/full").open("w") as file:
            file.write("x")

    stage.patch.setattr(JSONLines, "write", full)
    return stage.train()


@injection("a limit on file sizes is met when a checkpoint is written", "disk_full", "stop", 3)
def _(stage: Stage) -> int:
    whole = state.Gathered.write

    def limited(gathered: state.Gathered, *arguments: Any, **options: Any) -> Path:
        with _file_limit(4096):
            return whole(gathered, *arguments, **options)

    stage.patch.setattr(state.Gathered, "write", limited)
    return stage.train()


@contextmanager
def _file_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@injection("the store of matches may not grow", "disk_full", "stop", 3)
def _(stage: Stage) -> int:
    whole = LeagueStore.report_many

    def full(store: LeagueStore, *arguments: Any, **named: Any) -> int:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        return whole(store, *arguments, **named)

    stage.patch.setattr(LeagueStore, "report_many", full)
    return stage.train("rollout.start_states=99", "rollout.max_new_tokens=1")


@injection("a quota is met when a version is frozen", "disk_full", "stop", 3)
def _(stage: Stage) -> int:
    error = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
    stage.raise_in(checkpoints, "keep_frozen", error)
    return stage.train()


@injection("less disk is free than two checkpoints need", "disk_low", "stop", 3)
def _(stage: Stage) -> int:
    stage.patch.setattr(survival, "MIN_FREE_DISK_MIB", 1e12)
    return stage.train()


# --- clock, kills, damage ---------------------------------------------------------------------------


def _clock(stage: Stage, jump: float) -> None:
    """Let the clock move before update 2."""
    late: list[int] = []
    begin, watch = Survival.begin, survival.MachineWatch.__init__

    def begin_late(survival: Survival, update: int) -> None:
        late.extend([update] if update == 2 else [])
        begin(survival, update)

    def with_clock(machine: survival.MachineWatch, folder: Path) -> None:
        watch(machine, folder, lambda: time.monotonic() + jump * bool(late))

    stage.patch.setattr(Survival, "begin", begin_late)
    stage.patch.setattr(survival.MachineWatch, "__init__", with_clock)


@injection("the clock jumps a day ahead", "clock_jumped", "go_on", 0)
def _(stage: Stage) -> int:
    _clock(stage, 86400.0)
    return stage.train()


@injection("the clock jumps a day back, to end the run", "clock_jumped", "stop", 3)
def _(stage: Stage) -> int:
    _clock(stage, -86400.0)
    return stage.train("survival.policies={clock_jumped: stop}")


@injection("kill -9 while a checkpoint is written, then the same command", "", "go_on", 0)
def _(stage: Stage) -> int:
    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def die() -> int:
        stage.patch.setattr(checkpoints.folder, "seal_of", killed)
        return stage.train()

    assert in_child(die) == -signal.SIGKILL
    return stage.train()


@injection("the newest checkpoint is damaged", "", "go on from the one before", 0)
def _(stage: Stage) -> int:
    assert stage.train() == 0
    newest = stage.run / "checkpoints/step-00000002/state.json"
    newest.write_text(newest.read_text() + " ")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        return stage.train()


@injection("all checkpoints are damaged", "no checkpoint in", REFUSED, 2, exported=True)
def _(stage: Stage) -> int:
    assert stage.train("updates=1") == 0
    for path in (stage.run / "checkpoints").glob("step-*/state.json"):
        path.unlink()
    return stage.train("updates=1")


# --- mistakes --------------------------------------------------------------------------------------


@injection("the model's folder is mistyped", "no model", REFUSED, 2)
def _(stage: Stage) -> int:
    return stage.train(f"model={stage.folder / 'modle'}")


@injection("`lora.rank` is larger than any layer", "lora.rank=4096", REFUSED, 2)
def _(stage: Stage) -> int:
    return stage.train("lora.rank=4096")


@injection("the run's folder holds something else", "is not empty and holds no run", REFUSED, 2)
def _(stage: Stage) -> int:
    stage.run.mkdir()
    (stage.run / "thesis.tex").touch()
    return stage.train()


@injection(
    "another process is writing to the run", "already has a writer", REFUSED, 2, exported=True
)
def _(stage: Stage) -> int:
    assert stage.train("updates=1") == 0
    with LeagueStore(stage.run / "league.db", "continue"):
        return stage.train()


@injection("a policy that makes no sense for its fault", "disk_full cannot be answered", REFUSED, 2)
def _(stage: Stage) -> int:
    return stage.train("survival.policies={disk_full: go_on}")


@injection("a mixture of experts, shaped as Qwen3-MoE", "", "train", 0)
def _(stage: Stage) -> int:
    random_model.build(stage.folder / "moe", kind="qwen3_moe", hidden=32, layers=1, num_experts=4,
                       num_experts_per_tok=2, moe_intermediate_size=16)  # fmt: skip
    return stage.train(f"model={stage.folder / 'moe'}")


@injection("attention that is capped, shaped as Gemma 2", "softcap", REFUSED, 2)
def _(stage: Stage) -> int:
    random_model.build(
        stage.folder / "gemma", kind="gemma2", hidden=32, layers=2, sliding_window=16
    )
    return stage.train(f"model={stage.folder / 'gemma'}", "training.share_prefixes=true")
