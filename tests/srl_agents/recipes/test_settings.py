"""Recipes with credit and coordination: what fits together, and what is refused by name."""

from pathlib import Path
from typing import Any

import pytest

from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError

GUIDE = Path(__file__).parents[3] / "docs/guides/credit_and_coordination.md"


def recipe(tmp_path: Path, *overrides: str) -> LeagueRecipe:
    path = tmp_path / "r.yaml"
    path.write_text("name: r\nmodel: tiny\nenv: connect_four-v0\n")
    return load(LeagueRecipe, path, overrides)


PINNED = (
    "opponents.pinned={tiny-shallow: {"
    + ", ".join(
        f"{part}: {'ab' * 32!r}" for part in ("base_sha256", "prompt", "tokenizer", "adapter")
    )
    + ", lora: [8, 16]}}"
)


def test_the_recipe_of_the_guide_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "guide.yaml"
    path.write_text(GUIDE.read_text().split("```yaml\n")[1].split("```")[0])
    built = load(LeagueRecipe, path)
    assert (built.credit.mode, built.coordination.kind) == ("mixed", "federated")


@pytest.mark.parametrize("name", ["quickstart-tiny", "quickstart-smollm2-135m"])
def test_shipped_recipes_play_for_themselves_and_share_nothing(name: str) -> None:
    built = load(LeagueRecipe, find_recipe(name))
    assert (built.credit.mode, built.credit.estimator) == ("individual", "group")
    assert built.coordination.kind == "independent"
    assert not built.coordination.starts_alike


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("credit.mod=mixed", "Did you mean 'mode'"),
        ("coordination.kind=federatd", "Did you mean 'federated'"),
        ("coordination={kind: synchronized, top_k: 2}", "does not read 'top_k'"),
        ("coordination={kind: selective, top_k: 2}", "top_k=2 of 2 learners"),
        ("credit={estimator: gae}", "set level to 'turn'"),
        ("parameters=ful", "parameters"),
        ("full={snapshots_in_memory: 1}", "was removed"),
        ("prompt={thoughts: {budget: 0}}", "budget=0"),
        ("prompt={thoughts: {budget: 9, close: <think>}}", "must differ"),
        ("prompt={memory: {tokens: 0}}", "tokens=0"),
        ("credit={train_thoughts: false}", "set prompt.thoughts"),
        (
            "rewards={terms: {t: {kind: thought_cost}}}",
            "rewards.terms.t: the model writes no thoughts",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, override)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("lora={rank: 4}", "leave out one of the two"),
        ("dtype=bfloat16", "autocast"),
        ("coordination={kind: federated, merge: factors}", "entry by entry"),
        ("coordination={kind: asynchronous, merge: factors}", "entry by entry"),
    ],
)
def test_what_is_meant_for_adapters_is_refused_of_whole_weights(
    tmp_path: Path, override: str, message: str
) -> None:
    assert recipe(tmp_path, "parameters=full").parameters == "full"
    recipe(tmp_path, override)
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, "parameters=full", override)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("sharing={kind: demonstrations}", "asynchronous, sharing"),
        ("parameters=full", "asynchronous, parameters='full'"),
        ("transport={kind: shared}", r"asynchronous, transport\.kind='shared'"),
        ("training={algorithm: dpo}", r"asynchronous, training\.algorithm='dpo'"),
        ("training.iterations=5", "rows 5 steps old, and max_staleness=4"),
        ("asynchronous.in_flight=switch", r"Set rollout\.order to 'free'"),
        ("engine={kind: vllm, max_versions: 3}", "versions at once"),
        ("asynchronous={ahead: -1}", "ahead=-1"),
        ("placement=colocated", r"placement='colocated': .* nothing can be played ahead"),
        ("asynchronous={patience_s: 0}", "patience_s=0"),
    ],
)
def test_what_cannot_be_done_beside_generation_is_refused_by_name(
    tmp_path: Path, setting: str, message: str
) -> None:
    beside = ("asynchronous={ahead: 1}", "transport={kind: files}")
    assert recipe(tmp_path, *beside).asynchronous is not None
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, *beside, setting)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("placement=hybrid", "engine=vllm"), "placement='hybrid': engine 'vllm' is a process"),
        (("placement=hybrid", "engine=vllm_process"), "has weights of its own and shares none"),
        (("placement=colocated", "engine=vllm"), "Use 'disaggregated', or engine 'transformers'"),
        (("placement=colocated", "parameters=full"), "the learners' own tensors"),
        (("placement=disaggregated", "parameters=full"), "placement='disaggregated', parameters"),
        (("placement=disaggregated", "transport=shared"), "its weights stay in this process"),
        (("placement=disaggregated", "memory.budget_gib=8"), "two processes hold models"),
        (
            ("placement=hybrid", "asynchronous={}", "quantization=nf4"),
            "weights in 4 bits cannot be mapped",
        ),
        (("placement=hybrid", "asynchronous={}", "device=cuda"), "weights on a GPU cannot be"),
        (
            ("placement=hybrid", "asynchronous={}", "device=cpu", "memory.float32_islands=[norms]"),
            "some are float32 cannot",
        ),
        (
            ("memory={sharded: true, float32_islands: [norms]}",),
            "leave out one of|Leave out one of",
        ),
        (("memory.sharded=true", "parameters=full"), "memory.sharded: only a frozen base"),
        (("memory.sharded=true", "placement=disaggregated"), "memory.sharded: the processes"),
        (("memory.sharded=true", "training={algorithm: dpo}"), "batches cannot be divided"),
        (("placement=apart",), "'apart' is not one of"),
    ],
)
def test_a_placement_that_the_rest_contradicts_is_refused_by_name(
    tmp_path: Path, settings: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, *settings)


def test_one_line_places_a_recipe_and_weights_take_the_cheapest_road(tmp_path: Path) -> None:
    here, apart = recipe(tmp_path), recipe(tmp_path, "placement=disaggregated", "device=cpu")
    beside = recipe(tmp_path, "asynchronous={}", "device=cpu")
    placed = [
        (r.bases[0].placement, r.generation and r.generation.ahead) for r in (here, apart, beside)
    ]
    assert placed == [("hybrid", None), ("disaggregated", 0), ("hybrid", 1)]
    assert here.bases[0].placed_by
    assert not apart.bases[0].placed_by
    assert (here.carrier.kind, beside.carrier.kind) == ("shared", "files")
    assert apart.carrier.crosses_processes
    assert recipe(tmp_path, "engine=vllm").generation is None


def test_flat_groups_are_refilled_where_the_environment_alone_pays(tmp_path: Path) -> None:
    beside = ("asynchronous={ahead: 1, refill_limit: 2}", "transport={kind: files}")
    recipe(tmp_path, *beside)
    for judge in ("reward_model={}", "credit={estimator: role_baseline, level: turn}"):
        with pytest.raises(ConfigError, match="refill_limit=2"):
            recipe(tmp_path, *beside, judge)


def test_one_learner_has_nobody_to_coordinate_with(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="several learners"):
        recipe(tmp_path, "learners=[alice]", "coordination.kind=synchronized")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("{model: tiny, lora: {target_modules: [q_proj]}}", "one and two are of other layers"),
        ("{model: tiny, parameters: full}", "whole weights have no ranks"),
        ("{model: tiny-shallow}", "no base has two learners"),
    ],
)
def test_learners_that_merge_across_ranks_have_one_base_and_equal_layers(
    tmp_path: Path, second: str, message: str
) -> None:
    path = tmp_path / "r.yaml"
    text = (
        "name: ranks\nenv: nim-v0\ncoordination: {{kind: federated, merge: across}}\n"
        "models:\n  one: {{model: tiny}}\n  two: {}\n"
    )
    path.write_text(text.format(second))
    with pytest.raises(ConfigError, match=message):
        load(LeagueRecipe, path)
    path.write_text(text.format("{model: tiny, lora: {rank: 2}}"))
    assert load(LeagueRecipe, path).coordinated == {"one": ("one_1", "two_1")}


def test_scaling_by_groups_needs_groups(tmp_path: Path) -> None:
    settings: tuple[Any, ...] = ("scale_advantages=true", "credit.estimator=role_baseline")
    with pytest.raises(ConfigError, match=r"credit\.normalise"):
        recipe(tmp_path, *settings)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("learners=[alice, reward_model]", "reward_model={}"), "may be called 'reward_model'"),
        (
            ("roles={bob: main_exploiter}", "coordination={kind: synchronized}"),
            "alice is the only main",
        ),
        (
            (
                *("learners=[alice, bob, eve]", "roles={eve: main_exploiter}"),
                *("coordination={kind: federated}", "init_adapter={alice: /a, eve: /a}"),
            ),
            "begin alike",
        ),
        (
            ("training={variant: rloo}", "credit={estimator: leave_one_out, importance_cap: 2}"),
            "whole replies",
        ),
        (
            (
                "training={variant: rloo}",
                "credit={estimator: leave_one_out}",
                "coordination={kind: distillation}",
            ),
            "whole replies",
        ),
        (
            (
                "training={algorithm: ppo, critic: adapter}",
                "sharing={kind: sft, sft: {gradient_checkpointing: true}}",
            ),
            "sharing.sft.gradient_checkpointing",
        ),
        (
            (
                "training={algorithm: ppo, critic: adapter}",
                "warm_start={bots: [random], training: {gradient_checkpointing: true}}",
            ),
            "warm_start.training.gradient_checkpointing",
        ),
        (
            (
                "training={algorithm: ppo, critic: adapter}",
                "reward_model={gradient_checkpointing: true}",
            ),
            "reward_model.gradient_checkpointing",
        ),
        (
            (
                *(
                    "env=public_goods-v0",
                    "env_options={}",
                    "evaluation.bots=[]",
                    "opponents.bots={}",
                ),
                *("teams=[0, 0, 1, 1]", "seats={alice: [0, 2], bob: [1, 3]}"),
                "opponents.payoff_pairs=2",
            ),
            "alice, bob hold a part of a team",
        ),
        (
            ("evaluation.agents=[openai:m@http://127.0.0.1:9/v1]",),
            "is an endpoint without a budget",
        ),
        (
            (
                "evaluation.agents=[openai:m@http://127.0.0.1:9/v1]",
                "opponents.budgets={'openai:m@http://127.0.0.1:9/v1': {requests: 5}}",
            ),
            "requests=5 would never be asked",
        ),
        (("opponents.budgets={tiny-shallow: {requests: 5}}",), "are not endpoints"),
        (("opponents={mirror: 1.0e+308, past: 1.0e+308}",), "mirror=1e"),
        (("rollout.start_states=1000000000000",), "use 1 to 1000000"),
        (("learners=9",), "9: use 1 to 8, or name them"),
        (("opponents.agents={tiny-shallow: 1}", PINNED), "'tiny-shallow' has no adapter"),
        (
            ("opponents.agents={tiny-shallow: 1}", PINNED.replace("[8, 16]", "[8]")),
            "expected a list of 2, found 1",
        ),
        (("training={loss_type: rloo}",), "set credit.estimator"),
        (("training={algorithm: dpo}", "credit.normalise=agent"), "not by how much"),
        (
            ("training={algorithm: dpo}", "prompt={thoughts: {budget: 9}}"),
            "some tokens are the engine",
        ),
        (("sharing={kind: sft}", "prompt={thoughts: {budget: 9}}"), "share demonstrations"),
        (
            ("training={algorithm: ppo}", "rollout.group_size=1", "reward_model={}"),
            "pairs of attempts",
        ),
        (
            ("updates=3", "training={schedule: linear, total_updates: 5, iterations: 2}"),
            "3 updates of 2 steps each take 6",
        ),
        (
            (
                "updates=3",
                "training={algorithm: ppo, schedule: linear, total_updates: 11, minibatches: 2, "
                "iterations: 2}",
            ),
            "3 updates of 4 steps each take 12",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(LeagueRecipe, find_recipe("quickstart-tiny"), overrides)


@pytest.mark.parametrize(
    "override",
    [
        "credit={cooperation: 0.9}",
        "credit={mode: competitive, cooperation: 0.9}",
        "credit={mode: cooperative, competition: 0.9}",
        "credit={mode: cooperative, standing: margin}",
        "credit={mode: individual, competition: 0.7}",
        "credit={trace: 0.5}",
        "credit={estimator: leave_one_out, trace: 0.5}",
        "training={total_updates: 90}",
        "training={reference: start}",
        "training={algorithm: ppo, reference: start}",
        "sharing={kind: sft, dpo: {learning_rate: 1.0}}",
        "sharing={kind: demonstrations, steps: 2}",
    ],
)
def test_what_nothing_would_read_is_refused(override: str) -> None:
    with pytest.raises(ConfigError, match="leave it out"):
        load(LeagueRecipe, find_recipe("quickstart-tiny"), (override,))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("models.deep.learners=9", "learners=9: use 1 to 8"),
        ("models={'..': {model: tiny}}", "letter; it becomes a folder"),
        ("models.shallow.learners=[alice]", "a name twice"),
        (
            "models={deep: {model: tiny, device: cpu}, shallow: {model: tiny-shallow, device: cuda}}",
            "bases are on cpu, cuda",
        ),
    ],
)
def test_what_several_bases_cannot_be_is_refused_by_name(override: str, message: str) -> None:
    shared = ("coordination=independent", "sharing=null", "memory={budget_gib: 2}")
    with pytest.raises(ConfigError, match=message):
        load(LeagueRecipe, find_recipe("two-bases-tiny"), (*shared, override))


@pytest.mark.parametrize(
    ("left_out", "refused", "successor"),
    [
        (
            "sharing={kind: demonstrations, max_tokens: 256}",
            "sharing={kind: demonstrations, max_tokens: 99}",
            "lower sharing.top",
        ),
        ("opponents.focal_shares=false", "opponents.focal_shares=true", "opponents.preset: mixed"),
        (
            "training={algorithm: ppo, critic_width: 0}",
            "training={algorithm: ppo, critic_width: 8}",
            "training.critic: adapter",
        ),
        ("ray.lease_s=600.0", "ray.lease_s=20", "set ray.patience_s"),
    ],
)
def test_settings_of_earlier_releases_are_left_out_or_refused_with_what_stands_for_them(
    left_out: str, refused: str, successor: str
) -> None:
    recipe = load(LeagueRecipe, find_recipe("quickstart-tiny"), (left_out,))
    section = left_out.replace("=", ".").partition(".")[0]
    kept = {"sharing": "sharing={kind: demonstrations}", "training": "training={algorithm: ppo}"}
    same = (kept[section],) if section in kept else ()
    assert recipe == load(LeagueRecipe, find_recipe("quickstart-tiny"), same)
    with pytest.raises(ConfigError, match=successor) as caught:
        load(LeagueRecipe, find_recipe("quickstart-tiny"), (refused,))
    assert "\n" not in str(caught.value)
