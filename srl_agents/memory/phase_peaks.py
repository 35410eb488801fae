"""Memory of each role in each phase of an update, and the largest sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from srl_agents.memory import tensor_bytes as size
from srl_agents.memory.description import Description
from srl_agents.memory.devices import Target

LIVE_SHARE, CACHE_SHARE, EXACT_SHARE = 0.4, 0.2, 0.2
"""Of memory, that the embedded engine takes for keys and values
(`srl_agents.engines.embedded.engine`)."""
_LOGIT_COPIES = 4
"""Float32 tensors of the size of the logits while a token is drawn: logits, scaled, probabilities, sums."""
_TAIL_GRAIN = 32
"""The embedded engine lays a reply's keys and values in steps of so many tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """Bytes of each role in one phase."""

    name: str
    parts: dict[str, float]

    @property
    def bytes(self) -> float:
        """All of them."""
        return sum(self.parts.values())


def phases(plan: Description, target: Target) -> list[Phase]:
    """The phases of one update, in order; resident parts stand in each.

    Of several bases, all play at once, and one after the other learns: a phase of learning is that of the
    base which holds most in it, beside the others at rest.

    Args:
        plan: the run.
        target: where it runs.
    """
    if not plan.others:
        return _alone(plan, target)
    found = {base.base: {p.name: p for p in _alone(base, target)} for base in plan.bases}
    names = dict.fromkeys(name for own in found.values() for name in own)
    return [
        _together(plan, target, found)
        if name == "rollout"
        else max(
            (
                _in_turn(plan, base.base, target, found[base.base][name])
                for base in plan.bases
                if name in found[base.base]
            ),
            key=lambda phase: phase.bytes,
        )
        for name in names
    ]


def _together(plan: Description, target: Target, found: dict[str, dict[str, Phase]]) -> Phase:
    """Peak of the phase in which all bases play at once."""
    parts = {"process": (1 + plan.engine_process) * target.overhead_bytes}
    for base in plan.bases:
        own = found[base.base]["rollout"].parts
        parts |= {
            f"{k} of {base.base}": v for k, v in own.items() if k not in ("process", "allocator")
        }
    return Phase(name="rollout", parts=parts | {"allocator": _slack(parts, target)})


def _in_turn(plan: Description, turn: str, target: Target, phase: Phase) -> Phase:
    """One base has its turn, and the others wait, in memory or, where they take turns, out of it."""
    parts = {
        k if k == "process" else f"{k} of {turn}": v
        for k, v in phase.parts.items()
        if k != "allocator"
    }
    gone = plan.takes_turns and phase.name not in ("step", "checkpoint")
    for base in plan.bases:
        if base.base != turn and not gone:
            held = resident(base, target) | _played_ahead(base, target)
            parts |= {f"{k} of {base.base}": v for k, v in held.items() if k != "process"}
    return Phase(name=phase.name, parts=parts | {"allocator": _slack(parts, target)})


def _alone(plan: Description, target: Target) -> list[Phase]:
    """The phases of a run on one base."""
    held = resident(plan, target)
    rows, accelerator = plan.micro_rows, target.accelerator
    tokens = plan.pass_tokens
    kv = _kv(plan, target, sum(held.values()))
    kept = {"prefixes kept": kv["prefixes kept"]} if plan.keeps_cache else {}
    kept |= _played_ahead(plan, target)
    playing = _engine(plan, accelerator=accelerator)
    found = [Phase(name="rollout", parts=held | _whole_layers(plan) | kv | playing)]
    gathered = _gathered(plan)
    forward = gathered | {
        "activations": size.forward_bytes_per_token(plan) * tokens,
        "logits": size.head_bytes(plan, rows, accelerator, learns=False),
    }
    judge = _judging(plan, target)
    if plan.critic or plan.reward_model:
        parts = (
            gathered
            | judge
            | {"activations": max(forward["activations"], judge.get("activations", 0.0))}
        )
        found.append(Phase(name="judge", parts=held | kept | parts))
    if plan.reference:
        found.append(Phase(name="reference", parts=held | kept | forward))
    learning = gathered | training(plan, accelerator=accelerator)
    found.append(Phase(name="train", parts=held | kept | learning))
    found.append(Phase(name="step", parts=held | kept | _step(plan, accelerator=accelerator)))
    if plan.reward_model:
        parts = gathered | judge | _judge_learning(plan)
        found.append(Phase(name="reward learning", parts=held | kept | parts))
    if not accelerator:
        copied = held["adapters"] + held["optimizer"]
        found.append(Phase(name="checkpoint", parts=held | kept | {"copies": copied}))
    return [
        Phase(name=p.name, parts=p.parts | {"allocator": _slack(p.parts, target)}) for p in found
    ]


def resident(plan: Description, target: Target) -> dict[str, float]:
    """Bytes of the roles that stay in memory in every phase."""
    model = plan.model
    own = size.trained_tensors(model, plan.parameters, plan.rank, plan.targets)
    each = size.count(own) * 4.0
    held = {
        "process": (1 + plan.engine_process) * target.overhead_bytes,
        "base": size.base_bytes(model, plan.base_type)
        + size.island_bytes(model, plan.base_type, plan.islands)
        - _unread(plan, target)
        - _elsewhere(plan),
        "adapters": plan.learners * each,
        "optimizer": plan.learners * size.optimizer_bytes(own, plan.optimizer),
    }
    if plan.frozen_versions:
        held["frozen versions"] = plan.frozen_versions * each
    if plan.reference == "adapter":
        held["reference"] = plan.learners * each
    if plan.critic:
        held["critic"] = plan.learners * _critic(plan, each)
    if plan.reward_model and plan.judge is None:
        head = 4.0 * model.hidden
        held["reward model"] = each + head + size.optimizer_bytes(own, plan.optimizer)
    if plan.engine_base:
        held["engine's base"] = held["base"]
    if plan.reserved_share:
        held["engine server"] = plan.reserved_share * target.memory_bytes
    return held


def _elsewhere(plan: Description) -> float:
    """Bytes of the base's layers that other processes hold."""
    if plan.processes == 1:
        return 0.0
    layers = plan.model.layers * size.layer_bytes(plan.model, plan.base_type)
    return layers * (1 - 1 / plan.processes)


def _whole_layers(plan: Description) -> dict[str, float]:
    """Layers that processes divide, as an engine reads them: beside this process's part."""
    if plan.processes == 1 or not plan.plays_whole:
        return {}
    return {"gathered layers": plan.model.layers * size.layer_bytes(plan.model, plan.base_type)}


def _gathered(plan: Description) -> dict[str, float]:
    """The layer that a pass goes through, and the buffer in which it, or on a GPU the next one, arrives."""
    if plan.processes == 1:
        return {}
    return {"gathered layers": 2 * size.layer_bytes(plan.model, plan.base_type)}


def _as_judge(plan: Description) -> Description:
    """The run of the reward model: one learner that scores whole rows, with no head over the vocabulary."""
    settings: dict[str, Any] = {"learners": 1, "critic": "", "mixes": False, "processes": 1}
    if plan.judge is not None:
        settings |= {"model": plan.judge, "base_type": plan.judge_type, "rank": plan.judge_rank,
                     "targets": "all-linear", "parameters": "lora"}  # fmt: skip
    return replace(plan, **settings)


def _judging(plan: Description, target: Target) -> dict[str, float]:
    """Bytes of a reward model with a base of its own, in its phases."""
    if plan.judge is None:
        return {}
    run = _as_judge(plan)
    own = size.trained_tensors(run.model, "lora", run.rank, run.targets)
    return {
        "reward model": size.base_bytes(run.model, run.base_type)
        - _unread(run, target)
        + 4.0 * (size.count(own) + run.model.hidden)
        + size.optimizer_bytes(own, run.optimizer),
        "activations": size.forward_bytes_per_token(run) * run.pass_tokens,
    }


def _judge_learning(plan: Description) -> dict[str, float]:
    """What a pass of the reward model adds, of which no token is scored."""
    run = _as_judge(plan)
    saved = size.saved_bytes_per_layer(run, run.traffic.width) * run.pass_tokens
    layers = 1 if run.checkpointing else run.model.layers
    return {
        "gradients": _gradients(run),
        "activations": layers * saved + 4.0 * run.model.hidden * run.pass_tokens,
        "backward": size.backward_bytes_per_token(run) * run.pass_tokens,
    }


def _unread(plan: Description, target: Target) -> float:
    """On a CPU weights are pages of the model's file: an embedding's rows are read where tokens name them."""
    model = plan.model
    converted = model.stored not in ("", plan.base_type)  # read whole, and written into memory
    if target.accelerator or model.tied or plan.parameters == "full" or converted:
        return 0.0
    return model.vocabulary * model.hidden * (4.0 if plan.base_type == "float32" else 2.0)


def _critic(plan: Description, adapter: float) -> float:
    """Weights and states of one learner's critic: a head, and an adapter where it has its own."""
    head = plan.model.hidden + 1
    total = head * 4.0 + size.optimizer_bytes([("head", (head,), 1)], plan.optimizer)
    if plan.critic == "adapter":
        own = size.trained_tensors(plan.model, plan.parameters, plan.rank, plan.targets)
        total += adapter + size.optimizer_bytes(own, plan.optimizer)
    return total


def training(plan: Description, *, accelerator: bool) -> dict[str, float]:
    """What one forward and backward pass adds at its peak, with the gradients that exist then.

    A pass has three moments: its tokens are scored, a critic with an adapter has its own pass on top, and
    the gradient of a block is made. The largest counts.
    """
    tokens = plan.pass_tokens
    layers = plan.model.layers
    saved = size.saved_bytes_per_layer(plan, plan.traffic.width) * tokens
    b = 4.0 if plan.base_type == "float32" else 2.0
    inputs = layers * b * plan.model.hidden * tokens
    kept = inputs if plan.checkpointing else layers * saved
    parts = {
        "gradients": _gradients(plan),
        "activations": kept + 4.0 * plan.model.hidden * tokens,
    }
    # while tokens are scored, or a critic's pass is made, no block is recomputed
    back = size.backward_bytes_per_token(plan) * tokens + (saved if plan.checkpointing else 0.0)
    head = size.head_bytes(plan, plan.micro_rows, accelerator, learns=True) - _not_yet(plan)
    moments = {"logits": head, "backward": back}
    if plan.critic in ("base", "adapter"):
        states = 2 * 4.0 * plan.model.hidden * tokens
        again = (
            kept + back if plan.critic == "adapter" else size.forward_bytes_per_token(plan) * tokens
        )
        moments["critic's pass"] = again + states
    largest = max(moments, key=lambda name: moments[name])
    parts[largest] = moments[largest]
    if largest == "logits":
        parts["gradients"] -= _not_yet(plan)
        parts["logits"] += _not_yet(plan)
    copies = size.autocast_copy_bytes(plan)
    if copies:
        parts["autocast copies"] = copies / (layers if plan.checkpointing else 1)
    return parts


def _not_yet(plan: Description) -> float:
    """Gradients that do not exist yet when the tokens of a learner's only pass are scored."""
    if plan.pass_rows > plan.micro_rows:
        return 0.0
    return _gradients(plan) / (1 if plan.mixes else plan.learners)


def _gradients(plan: Description) -> float:
    own = size.trained_tensors(plan.model, plan.parameters, plan.rank, plan.targets)
    each = 4.0 * size.count(own)
    return each * plan.learners * (2.0 if plan.critic == "adapter" else 1.0)


def _step(plan: Description, *, accelerator: bool) -> dict[str, float]:
    """What an optimizer step adds: gradients, their mean, and what the optimizer writes meanwhile."""
    own = size.trained_tensors(plan.model, plan.parameters, plan.rank, plan.targets)
    gradients = _gradients(plan)
    largest = max(4.0 * size.count([(name, shape, 1)]) for name, shape, _ in own)
    # torch works on all tensors at once on a GPU (foreach), on one after another on a CPU
    working = (
        4.0 * size.count(own) if accelerator and plan.optimizer == "adamw_torch" else 2 * largest
    )
    parts = {"gradients": gradients, "optimizer's step": working}
    if plan.synchronized:
        parts["mean gradient"] = gradients + gradients / plan.learners
    return parts


def _kv(plan: Description, target: Target, held: float) -> dict[str, float]:
    """Keys and values of live replies and of kept prompts; a server has its own."""
    if plan.reserved_share:
        return {"keys and values": 0.0, "prefixes kept": 0.0}
    each = size.kv_bytes_per_token(plan.model, plan.base_type)
    free = max(0.0, target.memory_bytes - held)
    exact = EXACT_SHARE * target.memory_bytes
    live_limit = plan.live_bytes or (LIVE_SHARE * free if plan.keeps_cache else exact)
    cache_limit = CACHE_SHARE * free if plan.keeps_cache else exact
    if plan.cache_bytes is not None:
        cache_limit = plan.cache_bytes
    at_once = min(plan.batch_rows, max(1.0, plan.own_replies))
    one = each * -(-plan.traffic.width // _TAIL_GRAIN) * _TAIL_GRAIN
    written = plan.own_replies
    prompts = written if plan.keeps_cache else min(written, plan.concurrency)
    each_kept = size.kept_bytes_per_token(plan.model, plan.base_type, eight_bits=plan.eight_bits)
    kept = prompts * plan.traffic.mean_prompt_tokens * each_kept
    return {
        "keys and values": max(one, min(at_once * one, live_limit)),
        "prefixes kept": min(kept, cache_limit + plan.host_cache_bytes),
    }


def _engine(plan: Description, *, accelerator: bool) -> dict[str, float]:
    """What the engine's passes add: a pass reads prompts, and then a token is drawn for each reply."""
    if plan.reserved_share:
        return {}
    at_once = plan.replies_at_once
    read = min(plan.step_tokens, at_once * plan.traffic.prompt_tokens)
    own = size.trained_tensors(plan.model, plan.parameters, plan.rank, plan.targets)
    copied = plan.versions_at_once if plan.parameters == "lora" else 0
    factors = {"factors in play": copied * size.count(own) * 4.0}
    passing = {
        "activations": size.forward_bytes_per_token(plan) * read,
        "prompts read": size.kv_bytes_per_token(plan.model, plan.base_type) * read,
    }
    drawing = {"logits": _LOGIT_COPIES * 4.0 * at_once * plan.model.vocabulary}
    if not accelerator:  # its allocator keeps what the pass gave back
        return factors | {"activations": passing["activations"]} | drawing
    return factors | max(passing, drawing, key=lambda parts: sum(parts.values()))


def _played_ahead(plan: Description, target: Target) -> dict[str, float]:
    """What the engine holds while learners learn, where it plays at the same time."""
    if not plan.plays_ahead:
        return {}
    held = sum(resident(plan, target).values())
    parts = _engine(plan, accelerator=target.accelerator)
    ahead = {name if "play" in name else f"{name} of play": part for name, part in parts.items()}
    return _kv(plan, target, held) | ahead


def _slack(parts: dict[str, float], target: Target) -> float:
    fixed = sum(size for k, size in parts.items() if k.startswith(("process", "engine server")))
    return target.slack * (sum(parts.values()) - fixed)
