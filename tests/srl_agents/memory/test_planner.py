"""The planner: what must be true of every plan, what fits, and what it advises to change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.memory import seed_budgets
from srl_agents.memory.architecture import Architecture, published, shipped
from srl_agents.memory.description import Description, Traffic
from srl_agents.memory.devices import DEVICES, GIB, target_of, this_machine
from srl_agents.memory.parallel_sizing import PLACEMENTS, size_up
from srl_agents.memory.phase_peaks import phases
from srl_agents.memory.planner import changes, plan
from srl_agents.memory.tensor_bytes import layer_bytes
from srl_envs.errors import ConfigError

MODELS: dict[str, Architecture] = {name: published(name) for name in shipped()}  # type: ignore[misc]


def described(model: str = "qwen2.5-7b", **values: Any) -> Description:
    traffic = Traffic(
        rows=64,
        prompt_tokens=700,
        reply_tokens=300,
        mean_prompt_tokens=500,
        mean_reply_tokens=200,
        source="test",
    )
    return Description(name="run", model=MODELS[model], traffic=traffic, **values)


runs = st.builds(
    described,
    st.sampled_from(["qwen2.5-1.5b", "qwen3-4b", "smollm2-135m"]),
    base_type=st.sampled_from(["float32", "bfloat16", "nf4"]),
    learners=st.integers(1, 8),
    rank=st.sampled_from([4, 64]),
    optimizer=st.sampled_from(["adamw_torch", "adamw_8bit", "sgd"]),
    critic=st.sampled_from(["", "detached", "adapter"]),
    reference=st.sampled_from(["", "base", "adapter"]),
    micro_batch_rows=st.integers(1, 32),
    checkpointing=st.booleans(),
    autocast=st.booleans(),
    batch_rows=st.integers(1, 128),
)


@settings(max_examples=40, deadline=None)
@given(runs, st.sampled_from(list(DEVICES)))
def test_more_work_never_takes_less_and_no_part_is_negative(run: Description, device: str) -> None:
    target = DEVICES[device]
    made = plan(run, target)
    assert all(part >= 0 for phase in made.phases for part in phase.parts.values())
    assert made.peak.bytes == max(sum(phase.parts.values()) for phase in made.phases)
    assert all(seconds > 0 for seconds in made.pace.seconds.values())
    assert 0 < made.pace.mfu < 1
    for more in (
        replace(run, learners=run.learners + 1),
        replace(run, micro_batch_rows=run.micro_batch_rows + 2),
        replace(run, rank=2 * run.rank),
    ):
        assert plan(more, target).peak.bytes >= made.peak.bytes * (1 - 1e-9)
    assert made.fits or made.peak.bytes > target.memory_bytes


@settings(max_examples=25, deadline=None)
@given(runs, st.floats(4, 80))
def test_what_is_advised_fits(run: Description, gigabytes: float) -> None:
    target = target_of(f"{gigabytes}GB")
    made = plan(run, target)
    assert not (made.fits and made.advice)
    known = dict(changes())
    for name in made.advice:
        changed = known[name](run)
        run = run if changed is None else changed
    if made.advice:
        assert plan(run, target).fits


@settings(max_examples=40, deadline=None)
@given(runs, st.integers(2, 64), st.sampled_from([*DEVICES, "2GB"]), st.booleans())
def test_processes_that_divide_a_base_hold_a_part_and_gather_a_layer(
    run: Description, processes: int, device: str, plays_whole: bool
) -> None:
    if run.base_type == "nf4":
        with pytest.raises(ConfigError, match="divided"):
            replace(run, processes=processes)
        return
    target = target_of(device)
    own = replace(run, processes=processes, plays_whole=plays_whole)
    one, part = ({phase.name: phase.parts for phase in phases(each, target)} for each in (run, own))
    layers = run.model.layers * layer_bytes(run.model, run.base_type)
    for name, parts in part.items():
        gone = one[name]["base"] - parts["base"]
        assert gone == pytest.approx(layers * (1 - 1 / processes))
        assert parts["adapters"] == one[name]["adapters"]
    assert part["train"]["gathered layers"] == pytest.approx(2 * layers / run.model.layers)
    assert part["rollout"].get("gathered layers", 0) == (layers if plays_whole else 0)
    alone, divided = (plan(each, target).pace.seconds["train"] for each in (run, own))
    assert divided <= alone  # playing is not: a divided base has no captured passes
    assert all("nf4" not in name for name in plan(own, target).advice)


def test_processes_of_one_machine_share_its_memory() -> None:
    cpu = this_machine(32e9)
    own = described("smollm2-135m", processes=2)
    assert plan(own, cpu).target.memory_bytes == 16e9
    assert "each of 2 processes" in plan(own, cpu).line


def test_a_card_is_shown_in_the_unit_of_its_box_and_a_size_in_its_own() -> None:
    run = described("smollm2-135m")
    assert " of 79.2 GiB, " in plan(run, target_of("a100-80gb")).line
    assert " of 48.0 GB, " in plan(run, target_of("48GB")).line
    assert " of 40.0 GiB, " in plan(run, target_of("40GiB")).line


def test_the_default_settings_do_not_fit_a_7b_model_and_checkpointing_does() -> None:
    """At 16 rows of 1,024 tokens only the saved activations are 137 GiB (measured: 8.6 MB per token)."""
    traffic = Traffic(
        rows=16,
        prompt_tokens=768,
        reply_tokens=256,
        mean_prompt_tokens=768,
        mean_reply_tokens=256,
        source="test",
    )
    run = replace(described(base_type="bfloat16"), traffic=traffic)
    made = plan(run, DEVICES["a100-80gb"])
    train = next(phase for phase in made.phases if phase.name == "train")
    assert train.parts["activations"] / GIB == pytest.approx(137, rel=0.1)
    assert not made.fits
    assert made.advice
    assert plan(replace(run, checkpointing=True), DEVICES["a100-80gb"]).fits


def test_the_classical_budgets_are_explained() -> None:
    sums = {i.budget: i for i in seed_budgets.items() if i.what == "all"}
    assert sums["70B, four models"].classical == 560
    assert sums["7B PPO, whole weights"].planned > 2.5 * 92  # gradients and states were left out
    assert 20 < sums["7B with LoRA"].planned < 30
    assert all(item.why for item in seed_budgets.items())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_layout_uses_all_cards_and_fits_each(placement: Any) -> None:
    sizing = size_up(MODELS["llama-3.1-70b"], placement)
    assert sizing.fits
    assert sizing.training
    assert sizing.writing
    assert sizing.cards_needed == 64
    assert sizing.training.cards == (32 if placement == "disaggregated" else 64)
    assert max(sum(sizing.training_bytes.values()), sum(sizing.writing_bytes.values())) < 79.1 * GIB


def test_a_400b_model_needs_more_than_64_cards_unless_adapters_learn() -> None:
    model = MODELS["llama-3.1-405b"]
    whole = size_up(model, "hybrid")
    assert not whole.fits
    assert whole.cards_needed
    assert whole.cards_needed > 64
    assert size_up(model, "hybrid", learns="lora").fits


@pytest.mark.parametrize("text", ["a100", "12 apples", "-3GB", "0GB"])
def test_no_device_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(ConfigError, match="a100-80gb"):
        target_of(text)


def test_a_reward_model_of_another_size_counts_in_its_phases_alone() -> None:
    llama, run = MODELS["llama-3.2-1b"], described(base_type="bfloat16")
    judged = replace(run, reward_model=True, judge=llama)
    without, both = plan(run, DEVICES["a100-80gb"]), plan(judged, DEVICES["a100-80gb"])
    before = {phase.name: phase.bytes for phase in without.phases}
    after = {phase.name: phase.bytes for phase in both.phases}
    assert set(after) - set(before) == {"judge", "reward learning"}
    assert all(after[name] == size for name, size in before.items())
    judging = next(phase for phase in both.phases if phase.name == "judge")
    assert judging.parts["reward model"] > 2 * llama.parameters


def test_what_is_left_to_the_plan_is_recomputed_only_where_it_must_be() -> None:
    run = described(base_type="bfloat16", micro_batch_rows=16, checkpointing_by_plan=True)
    small, large = plan(run, DEVICES["a100-80gb"]), plan(run, target_of("400GB"))
    assert small.description.checkpointing
    assert small.fits
    assert not large.description.checkpointing
    assert large.fits
