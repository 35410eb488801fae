"""Every kind of coordination in a real run: what it conserves, and that it resumes bit for bit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import label_of
from srl_agents.training.folder.layout import snapshots_in
from tests.commit_cases import nightly_but
from tests.training_runs import metrics_of, state_of, train_run

pytestmark = pytest.mark.slow

UPDATES = 2
RECIPE = f"""
name: coordinated
model: tiny
env: connect_four-v0
env_options: {{rows: 4, cols: 4, k: 3}}
updates: {UPDATES}
learners: [alice, bob]
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 2, group_size: 3, max_new_tokens: 6}}
opponents: {{mirror: 0, live: 1, past: 1}}
training: {{learning_rate: 0.01}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
snapshot_every: {UPDATES}
checkpoint_every: 1
keep_checkpoints: {UPDATES}
"""
PLAIN = "training={optimizer: sgd, learning_rate: 1.0, max_grad_norm: 0}"
"""Steps that are the gradient itself."""
TWO_RANKS = (
    "models: {small: {model: tiny, learners: [alice], lora: {rank: 2, alpha: 8}}, "
    "large: {model: tiny, learners: [bob], lora: {rank: 6, alpha: 6}}}"
)
"""Instead of the one model: a line of the recipe."""
UNMERGED = ("coordination={kind: federated, every: 9}",)
KINDS = {
    "synchronized": ("coordination={kind: synchronized}",),
    "federated products": ("coordination={kind: federated, every: 2, weights: even}",),
    "federated factors": (
        "coordination={kind: federated, every: 2, weights: even, merge: factors}",
    ),
    "beside an exploiter": (
        *("learners=[alice, bob, eve]", "roles={eve: main_exploiter}", "snapshot_every=1"),
        *("coordination={kind: federated, every: 1, local_share: 0}", "exploiters={patience: 1}"),
    ),
    "across ranks": (
        TWO_RANKS,
        "coordination={kind: federated, every: 2, local_share: 0, weights: even, merge: across}",
    ),
    "selective top": ("coordination={kind: selective}",),
    "selective signs": (PLAIN, "coordination={kind: selective, select: signs}"),
    # What it remembers: running means, adaptive weights, the shared adapter, staleness, rows.
    "asynchronous": (
        "coordination={kind: asynchronous, ready_rows: 12}",
        "credit={mode: adaptive, estimator: role_baseline, normalise: agent}",
    ),
    "distillation": ("coordination={kind: distillation, teacher_weight: 1}",),
    "importance": (
        "training.iterations=2",
        "credit={importance_cap: 0.9, importance_level: sequence, normalise: turn, level: turn, "
        "estimator: gae}",
    ),
}
METRICS = {
    "synchronized": {"gradient_agreement"},
    "federated products": {"merge_weight", "merge_gap", "factor_gap", "gradient_agreement"},
    "federated factors": {"merge_weight", "merge_gap", "factor_gap"},
    "beside an exploiter": {"merge_weight", "merge_gap"},
    "across ranks": {"merge_weight", "merge_gap"},
    "selective top": {"stepped"},
    "selective signs": {"stepped", "sign_share"},
    "asynchronous": {"beta", "gamma", "baseline", "staleness", "merge_weight"},
    "distillation": {"teacher_kl"},
    "importance": {"importance_weight", "baseline"},
}  # fmt: skip
Settings = tuple[str, ...]
Runs = Callable[[Settings], Path]


def train(settings: Settings, run: Path) -> None:
    path = run.with_suffix(".yaml")
    text = RECIPE
    if TWO_RANKS in settings:
        own = ("model:", "learners:", "lora:")
        text = "\n".join(line for line in text.splitlines() if not line.startswith(own))
        text += f"\n{TWO_RANKS}\n"
    path.write_text(text)
    train_run(load(LeagueRecipe, path, [s for s in settings if s != TWO_RANKS]), run)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Finished runs by settings; each is made once."""
    made: dict[Settings, Path] = {}

    def run_of(settings: Settings) -> Path:
        if settings not in made:
            made[settings] = tmp_path_factory.mktemp("runs") / "run"
            train(settings, made[settings])
        return made[settings]

    return run_of


def adapter(run: Path, learner: str, update: int = UPDATES) -> dict[str, torch.Tensor]:
    return load_file(run / f"checkpoints/step-{update:08}/{learner}.adapter.safetensors")


def products(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {
        key: weights[key.replace("lora_A", "lora_B")].double() @ tensor.double()
        for key, tensor in weights.items()
        if "lora_A" in key
    }


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, other[key]) for key, tensor in one.items())


def state(run: Path) -> dict[str, Any]:
    """Everything a run leaves behind, but for wall-clock times."""
    last = run / f"checkpoints/step-{UPDATES:08}"
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = store.content_digest()
    return {
        "matches": matches,
        "metrics": metrics_of(run),
        "weights": {
            path.name: {k: v.tolist() for k, v in load_file(path).items()}
            for path in sorted(last.glob("*.safetensors"))
        },
        "state": state_of(last),
    }


@pytest.mark.parametrize("kind", nightly_but({"asynchronous"}, KINDS))
def test_a_run_that_lost_its_last_checkpoint_ends_like_an_undisturbed_one(
    kind: str, runs: Runs, tmp_path: Path
) -> None:
    whole = runs(KINDS[kind])
    shutil.copytree(whole, tmp_path / "run", symlinks=True)
    shutil.rmtree(tmp_path / f"run/checkpoints/step-{UPDATES:08}")
    train(KINDS[kind], tmp_path / "run")
    assert state(tmp_path / "run") == state(whole)
    seen = {
        name
        for line in metrics_of(whole)
        for values in (line["run"], *line["learners"].values())
        for name in values
    }
    assert seen >= METRICS[kind] | {"loss"}


def test_synchronized_learners_stay_equal(runs: Runs) -> None:
    run = runs(KINDS["synchronized"])
    assert equal(adapter(run, "alice"), adapter(run, "bob"))
    assert not equal(adapter(run, "alice"), adapter(run, "alice", 1))


def test_mains_merge_and_an_exploiter_beside_them_begins_again_by_itself(runs: Runs) -> None:
    run = runs(KINDS["beside an exploiter"])
    alice, bob = (products(adapter(run, name)) for name in ("alice", "bob"))
    assert max(float(tensor.abs().max()) for tensor in alice.values()) > 0
    for key, tensor in alice.items():
        torch.testing.assert_close(tensor, bob[key], rtol=1e-4, atol=1e-7)
    for line in metrics_of(run):
        weights = {name: own.get("merge_weight") for name, own in line["learners"].items()}
        assert weights.pop("eve") is None
        assert sum(weights.values()) == pytest.approx(1)
        assert line["learners"]["eve"]["loss"] != 0
    assert "eve@1" in map(label_of, snapshots_in(run))
    assert not any(tensor.any() for tensor in products(adapter(run, "eve", 1)).values())
    assert all(tensor.any() for tensor in products(adapter(run, "alice", 1)).values())


def test_learners_of_other_ranks_of_one_base_add_nearly_the_same_after_a_merge(runs: Runs) -> None:
    run = runs(KINDS["across ranks"])
    before = [products(adapter(run, name, 1)) for name in ("alice", "bob")]
    assert all(tensor.any() for own in before for tensor in own.values())
    alice, bob = (products(adapter(run, name)) for name in ("alice", "bob"))
    missed, whole = 0.0, 0.0
    for key, tensor in bob.items():
        effect = tensor  # alpha / rank is 1
        assert int(torch.linalg.matrix_rank(effect, rtol=1e-5)) > 2
        missed += float((4 * alice[key] - effect).norm() ** 2)
        whole += float(effect.norm() ** 2)
    assert 0 < missed < whole
    (gap,) = [line["run"]["merge_gap"] for line in metrics_of(run) if "merge_gap" in line["run"]]
    assert 0 < gap < (missed / whole) ** 0.5  # the mean of both learners', and bob's is smaller


def test_an_even_merge_of_factors_conserves_their_sum(runs: Runs) -> None:
    merged, apart = runs(KINDS["federated factors"]), runs(UNMERGED)
    alice, bob = adapter(apart, "alice"), adapter(apart, "bob")
    mixed, other = adapter(merged, "alice"), adapter(merged, "bob")
    assert not equal(alice, bob)
    for key, tensor in alice.items():
        assert torch.allclose(mixed[key], 0.75 * tensor + 0.25 * bob[key], atol=1e-7)
        assert torch.allclose(mixed[key] + other[key], tensor + bob[key], atol=1e-6)


@pytest.mark.nightly
def test_an_even_merge_of_products_misses_their_sum_by_what_the_rank_cuts_off(runs: Runs) -> None:
    merged, apart = runs(KINDS["federated products"]), runs(UNMERGED)
    alice, bob = (products(adapter(apart, name)) for name in ("alice", "bob"))
    mixed, factors = (
        products(adapter(run, "alice")) for run in (merged, runs(KINDS["federated factors"]))
    )
    missed, crossed, whole = 0.0, 0.0, 0.0
    for key, tensor in alice.items():
        exact = 0.75 * tensor + 0.25 * bob[key]
        whole += float(exact.norm() ** 2)
        missed += float((exact - mixed[key]).norm() ** 2)
        crossed += float((exact - factors[key]).norm() ** 2)
    assert 0 < missed < crossed < whole  # the best of its rank; the factors' mean is another


@pytest.mark.parametrize("merge", nightly_but({"product"}, ["factors", "product"]))
def test_a_weight_of_0_has_no_influence_on_a_merge(runs: Runs, merge: str) -> None:
    """A temperature near 0 gives the best learner all the weight, and no learner keeps its own."""
    merged = runs(
        (
            f"coordination={{kind: federated, every: 2, local_share: 0, temperature: 1.0e-6, "
            f"merge: {merge}}}",
        )
    )
    last = metrics_of(merged)[-1]["learners"]
    best = max(last, key=lambda name: last[name]["merge_weight"])
    assert sorted(v["merge_weight"] for v in last.values()) == [0, 1]
    expected = adapter(runs(UNMERGED), best)
    for name in last:
        if merge == "factors":
            assert equal(adapter(merged, name), expected)
        mine = products(adapter(merged, name))
        for key, tensor in products(expected).items():
            assert torch.allclose(mine[key], tensor, atol=1e-6)


def test_who_is_passed_over_keeps_its_weights(runs: Runs) -> None:
    run = runs(KINDS["selective top"])
    first, second = (line["learners"] for line in metrics_of(run))
    assert {values["stepped"] for values in first.values()} == {1}  # all learners are equal yet
    assert sorted(values["stepped"] for values in second.values()) == [0, 1]
    for name, values in second.items():
        moved = not equal(adapter(run, name), adapter(run, name, 1))
        assert moved == bool(values["stepped"])


@pytest.mark.nightly
def test_only_entries_on_whose_direction_all_agree_move(runs: Runs) -> None:
    run = runs(KINDS["selective signs"])
    alice, bob = adapter(run, "alice", 1), adapter(run, "bob", 1)
    moved = 0
    for key, tensor in alice.items():
        if "lora_B" in key:  # which began as 0, and let no gradient through to A
            assert torch.equal(tensor.sign(), bob[key].sign())
            moved += int((tensor != 0).sum())
        else:
            assert torch.equal(tensor, bob[key])
    entries = sum(tensor.numel() for tensor in alice.values())
    assert 0 < moved < entries / 2
    assert metrics_of(run)[0]["run"]["sign_share"] == pytest.approx(moved / entries)
    whole = runs((PLAIN,))
    assert moved < sum(
        int((t != 0).sum()) for k, t in adapter(whole, "alice", 1).items() if "lora_B" in k
    )


def test_who_merged_last_holds_the_shared_weights(runs: Runs) -> None:
    run = runs(KINDS["asynchronous"])
    shared = load_file(run / f"checkpoints/step-{UPDATES:08}/coordination.all.safetensors")
    merged = [
        name for name, values in metrics_of(run)[-1]["learners"].items() if "staleness" in values
    ]
    assert equal(
        adapter(run, merged[-1]), {k.removeprefix("shared/"): t for k, t in shared.items()}
    )


@pytest.mark.nightly
def test_a_shared_adapter_that_mixes_nothing_in_stays_at_its_start(runs: Runs) -> None:
    run = runs(("coordination={kind: asynchronous, ready_rows: 1, mixing: 0}",))
    alice, bob = adapter(run, "alice"), adapter(run, "bob")
    assert equal(alice, bob)
    assert not any(tensor.any() for key, tensor in alice.items() if "lora_B" in key)


def test_teaching_moves_the_student_and_not_the_teacher(runs: Runs) -> None:
    taught, untaught = runs(KINDS["distillation"]), runs(())
    students = [
        n for n, values in metrics_of(taught)[-1]["learners"].items() if "teacher_kl" in values
    ]
    assert len(students) == 1
    for name in ("alice", "bob"):
        assert equal(adapter(taught, name), adapter(untaught, name)) == (name not in students)


@pytest.mark.nightly
def test_a_teacher_without_weight_changes_nothing(runs: Runs) -> None:
    run = runs(("coordination={kind: distillation, teacher_weight: 0}",))
    for name in ("alice", "bob"):
        assert equal(adapter(run, name), adapter(runs(()), name))


@pytest.mark.nightly
def test_a_cap_of_one_half_halves_the_first_step(runs: Runs) -> None:
    capped, whole = runs((PLAIN, "credit={importance_cap: 0.5}")), runs((PLAIN,))
    assert metrics_of(capped)[0]["learners"]["alice"]["importance_weight"] == pytest.approx(
        0.5, abs=1e-3
    )
    mine, other = adapter(capped, "alice", 1), adapter(whole, "alice", 1)
    for key, tensor in mine.items():
        if "lora_B" in key:
            assert torch.allclose(tensor, 0.5 * other[key], atol=1e-6)
