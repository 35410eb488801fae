"""The classical budgets of RLHF beside the planner's own, with the causes of the difference.

The budgets: four models of 70 billion weights at 140 GB each; PPO on 7 billion at 92 GB, and at 30 GB with
LoRA, a shared reference, a smaller reward model, no critic and an 8-bit optimizer; 4 to 8 learners on
one base
of 14 billion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from srl_agents.memory import tensor_bytes as size
from srl_agents.memory.architecture import Architecture, published
from srl_agents.memory.description import Description, Traffic
from srl_agents.memory.devices import DEVICES
from srl_agents.memory.phase_peaks import training
from srl_agents.memory.planner import plan
from srl_envs.errors import ConfigError

TRAFFIC = Traffic(
    rows=64, prompt_tokens=512, reply_tokens=512, mean_prompt_tokens=512, mean_reply_tokens=512,
    source="assumed: 64 rows of 512 + 512 tokens, 8 in a pass",
)  # fmt: skip
"""The budgets name no lengths."""
GB = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One line of a budget, in GB."""

    budget: str
    what: str
    classical: float | None
    """None where the classical budget leaves it out."""
    planned: float
    why: str


def items() -> list[Item]:
    """All budgets, line by line."""
    return [*_four_models(), *_ppo_7b(), *_reduced_7b(), *_learners_14b()]


def known(name: str) -> Architecture:
    """A shipped architecture that must be there."""
    found = published(name)
    if found is None:
        raise ConfigError(f"architecture {name!r} is missing from the installation.")
    return found


def _four_models() -> list[Item]:
    model = known("llama-3.1-70b")
    weights = model.parameters * 2 / GB
    state = model.parameters * (2 + 12) / GB
    budget = "70B, four models"
    return [
        *(
            Item(budget=budget, what=role, classical=140.0, planned=weights,
                 why=f"{model.parameters / 1e9:.2f} billion weights of Llama 3.1 70B in bfloat16")
            for role in ("policy", "reference", "reward model", "value model")
        ),
        Item(budget=budget, what="training state of policy and value", classical=None, planned=2 * state,
             why="left out: gradients 2 bytes, and weights, mean and variance of AdamW in float32, 12 bytes "
             "per weight (arXiv:1910.02054 section 3.1), of both models that learn"),
        Item(budget=budget, what="all", classical=560.0, planned=4 * weights + 2 * state,
             why="eight cards of 80 GB hold the weights and cannot train them: see `srl plan parallel`"),
    ]  # fmt: skip


def _ppo_7b() -> list[Item]:
    model, budget = known("qwen2.5-7b"), "7B PPO, whole weights"
    n = model.parameters
    run = Description(
        name="ppo", model=model, traffic=TRAFFIC, parameters="full", base_type="float32", learners=1,
        autocast=True, checkpointing=True, micro_batch_rows=8,
    )  # fmt: skip
    parts = training(run, accelerator=True)
    activations = 2 * _passing(parts) / GB
    weights = n * 2 / GB
    each = f"{n / 1e9:.2f} billion weights in bfloat16"
    roles = ("policy", "reference", "reward model", "value model")
    rows: list[tuple[str, float | None, float, str]] = [
        (role, 14.0, weights, each) for role in roles
    ]
    rows += [
        ("optimizer states", 28.0, 2 * n * 12 / GB,
         "28 GB is one moment of one model (4 bytes per weight). AdamW keeps two, and a float32 copy of "
         "weights that are bfloat16 (12 bytes), for policy and value model"),
        ("gradients", None, 2 * n * 2 / GB, "left out: 2 bytes per weight of both models that learn"),
        ("activations", 8.0, activations,
         "with checkpointing, 8 rows of 1,024 tokens, of both models; the budget names no length"),
    ]  # fmt: skip
    return _with_sum(budget, rows, 92.0, "does not fit 80 GB, by more than the budget states")


def _reduced_7b() -> list[Item]:
    model, judge, budget = known("qwen2.5-7b"), known("llama-3.2-1b"), "7B with LoRA"
    run = Description(
        name="reduced", model=model, traffic=TRAFFIC, base_type="bfloat16", rank=16, learners=1,
        optimizer="adamw_8bit", checkpointing=True, micro_batch_rows=8, judge=judge,
    )  # fmt: skip
    parts = training(run, accelerator=True)
    own = size.trained_tensors(model, "lora", 16, "all-linear")
    count = size.count(own)
    rows: list[tuple[str, float | None, float, str]] = [
        ("base", 14.0, size.base_bytes(model, "bfloat16") / GB, "not in the list of 16 GB, which adds 14 "
        "to reach 30"),
        ("adapter", 2.0, count * 4 / GB,
         f"{count / 1e6:.0f} million weights at rank 16 on all linear layers, float32"),
        ("reference", 0.0, 0.0, "the base with its adapter off"),
        ("reward model", 2.0, size.base_bytes(judge, "bfloat16") / GB, "Llama 3.2 1B in bfloat16"),
        ("value model", 0.0, 0.0, "GRPO has none"),
        ("optimizer states", 4.0, size.optimizer_bytes(own, "adamw_8bit") / GB,
         "two bytes per weight of the adapter; 4 GB would be those of 2 billion weights"),
        ("gradients", None, count * 4 / GB, "left out: of the adapter, float32"),
        ("activations", 8.0, _passing(parts) / GB,
         "with checkpointing, 8 rows of 1,024 tokens"),
    ]  # fmt: skip
    made = plan(run, DEVICES["a100-80gb"])
    engine = next(phase for phase in made.phases if phase.name == "rollout").parts
    rows.append(("keys and values of 64 replies", None,
                 (engine["keys and values"] + engine["prefixes kept"]) / GB,
                 "left out: the rollout holds these in the place of activations and gradients, so they are "
                 "not in the sum"))  # fmt: skip
    found = _with_sum(
        budget,
        rows[:-1],
        30.0,
        "the claim holds, with room to spare: adapters are smaller than it states",
    )
    return [
        *found,
        Item(budget=budget, what=rows[-1][0], classical=None, planned=rows[-1][2], why=rows[-1][3]),
    ]


def _learners_14b() -> list[Item]:
    model, budget = known("qwen2.5-14b"), "learners on one 14B base"
    found = []
    for learners in (4, 8):
        for kind in ("bfloat16", "nf4"):
            run = Description(
                name=f"{learners} learners", model=model, traffic=TRAFFIC, base_type=kind, rank=16,
                learners=learners, frozen_versions=2 * learners, optimizer="adamw_8bit", checkpointing=True,
                micro_batch_rows=8,
            )  # fmt: skip
            made = plan(run, DEVICES["a100-80gb"])
            one = replace(run, learners=1, frozen_versions=2)
            more = made.peak.bytes / plan(one, DEVICES["a100-80gb"]).peak.bytes
            found.append(Item(
                budget=budget, what=f"{learners} learners, {kind} base", classical=None,
                planned=made.peak.bytes / GB,
                why=f"peak in phase {made.peak.name!r}, {more:.2f} times that of one learner: "
                f"{'fits' if made.fits else 'does not fit'} one card of 80 GB",
            ))  # fmt: skip
    return found


def _with_sum(
    budget: str, rows: list[tuple[str, float | None, float, str]], total: float, verdict: str
) -> list[Item]:
    lines = [Item(budget=budget, what=w, classical=c, planned=p, why=y) for w, c, p, y in rows]
    planned = sum(line.planned for line in lines)
    return [*lines, Item(budget=budget, what="all", classical=total, planned=planned, why=verdict)]


def _passing(parts: dict[str, float]) -> float:
    """Bytes of a pass at its peak, without the gradients of weights."""
    return sum(parts.get(name, 0.0) for name in ("activations", "backward", "logits"))
