"""Faults planted in the trainers are found, each in a layout and a loss where it does harm."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.models.weights.lora import LoRAWeights
from srl_agents.records import TrainingBatch
from srl_agents.trainers import policy_gradient, ppo
from srl_agents.trainers.dpo import DPOLearner
from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.passes import log_probabilities
from srl_agents.trainers.policy_gradient import RowTrainer
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.trainers.verification.cases import chosen_cases
from srl_agents.trainers.verification.layouts import LAYOUTS, AdapterForm, Learners
from srl_agents.trainers.verification.verify import BOUND, Result, Verification

Patch = pytest.MonkeyPatch
FOUND = 10
"""Times the bound by which a fault must differ at least, so that none is found by luck."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model.build(tmp_path_factory.mktemp("model"), layers=1)


@pytest.fixture(scope="module")
def sound(model: Path) -> Verification:
    return Verification(model)


def result(sound: Verification, model: Path, case: str, layout: str) -> Result:
    """Of learners on a base of their own, whose head no other test has patched."""
    sound.learners = Learners(model, AdapterForm(), 0.8)
    (chosen,) = (one for one in chosen_cases((case,)) if one.name == case)
    (found,) = sound.results(chosen, [one for one in LAYOUTS if one.name == layout])
    return found


# --- how faults are planted ----------------------------------------------------------------------


def in_rows(change: Callable[[dict[str, Any]], None]) -> Callable[[Patch], None]:
    """Change what the loss of a micro-batch reads."""

    def plant(patch: Patch) -> None:
        whole = RowTrainer._generate_and_score_completions

        def changed(self: RowTrainer, inputs: dict[str, Any]) -> dict[str, Any]:
            inputs = whole(self, inputs)
            change(inputs)
            return inputs

        patch.setattr(RowTrainer, "_generate_and_score_completions", changed)

    return plant


def in_config(kind: Any, **values: Any) -> Callable[[Patch], None]:
    """Change what TRL is configured with; a value may be a function of the configuration."""

    def plant(patch: Patch) -> None:
        whole = kind.to_trl

        def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
            config = whole(self, *args, **kwargs)
            new = {
                key: value(config) if callable(value) else value for key, value in values.items()
            }
            for key, value in new.items():
                setattr(config, key, value)
            return config

        patch.setattr(kind, "to_trl", changed)

    return plant


def in_share(change: Callable[[RowTrainer, dict[str, Any]], None]) -> Callable[[Patch], None]:
    """Change the share of the batch that TRL takes a micro-batch for."""

    def plant(patch: Patch) -> None:
        whole = RowTrainer._set_share

        def changed(self: RowTrainer, rows: dict[str, Any], *args: Any) -> None:
            whole(self, rows, *args)
            change(self, rows)

        patch.setattr(RowTrainer, "_set_share", changed)

    return plant


def in_layout(name: str, change: Callable[[Any], Any]) -> Callable[[Patch], None]:
    """Change a layout that ``policy_gradient`` makes with a function of this name."""

    def plant(patch: Patch) -> None:
        whole = getattr(policy_gradient, name)
        patch.setattr(policy_gradient, name, lambda *a, **k: change(whole(*a, **k)))

    return plant


def drop_last(inputs: dict[str, Any]) -> None:
    mask = inputs["tool_mask"]
    last = mask.shape[1] - 1 - mask.flip(1).argmax(1, keepdim=True)
    inputs["tool_mask"] = mask.scatter(1, last, 0)


def off_by_one(inputs: dict[str, Any]) -> None:
    inputs["tool_mask"] = inputs["tool_mask"].roll(1, 1) * inputs["completion_mask"]


def rolled(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda inputs: inputs.update({name: inputs[name].roll(1, 0)})


def always_on(patch: Patch) -> None:
    patch.setattr(BaseModel, "through", lambda self, name: nullcontext())


def twice_the_scale(patch: Patch) -> None:
    whole = LoRAWeights.add

    def add(self: LoRAWeights, name: str, seed: int) -> None:
        whole(self, name, seed)
        for layer in self._layers.values():
            layer.scaling[name] *= 2

    patch.setattr(LoRAWeights, "add", add)


def neighbours_adapter(patch: Patch) -> None:
    whole = BaseModel.learning
    patch.setattr(BaseModel, "learning", lambda self, names: whole(self, [*names[1:], names[0]]))


def unweighted_shares(patch: Patch) -> None:
    whole = TrainingBatch.share

    def unweighted(batch: TrainingBatch, *given: Any) -> TrainingBatch | None:
        shared: TrainingBatch | None = whole(batch, *given)
        return shared and replace(shared, whole=None)

    patch.setattr(TrainingBatch, "share", unweighted)


def head_without_temperature(patch: Patch) -> None:
    whole = log_probabilities._finished

    def finished(*given: Any) -> tuple[torch.Tensor, ...]:
        logps, entropies, *gradients = whole(*given)
        return logps, entropies, *(gradient * 0.8 for gradient in gradients)

    patch.setattr(log_probabilities, "_finished", finished)


def pairs_swapped(patch: Patch) -> None:
    whole = DPOLearner._inputs

    def inputs(self: DPOLearner, pairs: Any) -> Any:
        swapped = [replace(p, chosen_ids=p.rejected_ids, rejected_ids=p.chosen_ids) for p in pairs]
        return whole(self, swapped)

    patch.setattr(DPOLearner, "_inputs", inputs)


def references_swapped(patch: Patch) -> None:
    whole = DPOLearner._inputs

    def inputs(self: DPOLearner, pairs: Any) -> Any:
        found = whole(self, pairs)
        chosen, rejected = found["ref_chosen_logps"], found["ref_rejected_logps"]
        return found | {"ref_chosen_logps": rejected, "ref_rejected_logps": chosen}

    patch.setattr(DPOLearner, "_inputs", inputs)


def negative_margins(patch: Patch) -> None:
    whole = DPOLearner._inputs
    patch.setattr(
        DPOLearner,
        "_inputs",
        lambda self, pairs: whole(self, [replace(p, margin=-p.margin) for p in pairs]),
    )


def frozen_critic(patch: Patch) -> None:
    patch.setattr(
        PPOLearner,
        "_backward",
        lambda self, batch: policy_gradient.backward_batch(
            self._trainer, batch, self.micro_batch_rows
        ),
    )


def values_of_the_next_place(patch: Patch) -> None:
    patch.setattr(
        RowTrainer, "_of_tokens", staticmethod(lambda hidden, tokens, layout: hidden[:, -tokens:])
    )


def seeing_siblings(layout: Any) -> Any:
    return replace(layout, visible_GLL=torch.ones_like(layout.visible_GLL).tril())


def shifted(layout: Any) -> Any:
    own = (layout.labels_GL != -100).long()
    return replace(layout, position_ids_GL=layout.position_ids_GL + own)


def places_of_the_row_before(layout: Any) -> Any:
    """A reply is scored where another reply to the same prompt is."""
    return replace(layout, place_RT=layout.place_RT.roll(1, 0))


def in_one_row(packed: Any) -> Any:
    places = torch.arange(packed.input_ids_1N.shape[1])[None]
    return replace(packed, position_ids_1N=places)


class Fault(NamedTuple):
    """What is wrong, where it does harm, and how it is planted."""

    case: str
    layout: str
    plant: Callable[[Patch], None]


DAPO, SEVERAL = "grpo dapo", "padded, several passes"
FAULTS: dict[str, Fault] = {
    "sign of advantages": Fault(
        DAPO, "padded", in_rows(lambda i: i.update(advantages=-i["advantages"]))
    ),
    "advantages of another row": Fault(DAPO, "padded", in_rows(rolled("advantages"))),
    "mask off by one": Fault(DAPO, "padded", in_rows(off_by_one)),
    "last token dropped": Fault(DAPO, "padded", in_rows(drop_last)),
    "padding counted": Fault(
        "grpo grpo",
        "padded",
        in_rows(lambda i: i.update(tool_mask=torch.ones_like(i["tool_mask"]))),
    ),
    "unlearned tokens learned": Fault(
        "grpo grpo", "padded", in_rows(lambda i: i.update(tool_mask=i["completion_mask"]))
    ),
    "stale log-probabilities of another row": Fault(
        DAPO, "padded", in_rows(rolled("old_per_token_logps"))
    ),
    "stale reference": Fault("grpo grpo", "padded", in_rows(rolled("ref_per_token_logps"))),
    "reference with the adapter on": Fault("grpo grpo", "padded", always_on),
    "correction of the divergence missing": Fault(
        "grpo default with divergence",
        "padded",
        in_config(GRPOSettings, use_bias_correction_kl=False),
    ),
    "temperature missing": Fault(DAPO, "padded", in_config(GRPOSettings, temperature=1.0)),
    "clip missing": Fault(DAPO, "padded", in_config(GRPOSettings, epsilon=0.99, epsilon_high=99.0)),
    "upper clip of the lower side": Fault(
        DAPO, "padded", in_config(GRPOSettings, epsilon_high=0.2)
    ),
    "larger and not smaller gain": Fault(
        DAPO, "padded", lambda patch: patch.setattr(torch, "min", torch.max)
    ),
    "gspo clipped by token": Fault(
        "grpo gspo", "padded", in_config(GRPOSettings, importance_sampling_level="token")
    ),
    "gspo without clip": Fault("grpo gspo", "padded", in_config(GRPOSettings, epsilon_high=9.0)),
    "cispo cut at another place": Fault(
        "grpo cispo", "padded", in_config(GRPOSettings, epsilon_high=6.0)
    ),
    "rloo without clip": Fault(
        "grpo rloo", "padded", in_config(GRPOSettings, epsilon=0.99, epsilon_high=99.0)
    ),
    "constant of dr_grpo": Fault(
        "grpo dr_grpo", "padded", in_config(GRPOSettings, max_completion_length=65)
    ),
    "entropy punished": Fault(
        "grpo default with entropy",
        "padded",
        in_share(lambda self, rows: setattr(self, "entropy_coef", -self.entropy_coef)),
    ),
    "tokens of a micro-batch for those of the batch": Fault(
        DAPO,
        SEVERAL,
        in_share(lambda self, rows: setattr(self, "current_gradient_accumulation_steps", 1)),
    ),
    "micro-batches weighed alike": Fault(
        "grpo grpo",
        SEVERAL,
        in_share(lambda self, rows: setattr(self, "current_gradient_accumulation_steps", 3)),
    ),
    "scale of the adapter": Fault(DAPO, "padded", twice_the_scale),
    "prefix read with another reply": Fault(
        DAPO, "shared prefixes", in_layout("share_prefixes", seeing_siblings)
    ),
    "positions shifted": Fault(DAPO, "shared prefixes", in_layout("share_prefixes", shifted)),
    "places of another row": Fault(
        DAPO, "shared prefixes", in_layout("share_prefixes", places_of_the_row_before)
    ),
    "packed rows at running positions": Fault(
        DAPO, "packed rows", in_layout("pack_rows", in_one_row)
    ),
    "temperature missing in the slope": Fault(DAPO, "chunked logits", head_without_temperature),
    "adapter of a neighbour": Fault(DAPO, "mixed adapters", neighbours_adapter),
    "shares weighed as wholes": Fault(DAPO, "divided batch", unweighted_shares),
    "values not clipped": Fault(
        "ppo shared",
        "padded",
        lambda patch: patch.setattr(
            ppo, "value_loss", lambda now, paid, before, clip: 0.5 * (now - paid) ** 2
        ),
    ),
    "returns of another row": Fault("ppo detached", "padded", in_rows(rolled("returns"))),
    "values of the next token": Fault("ppo detached", "padded", values_of_the_next_place),
    "critic's adapter frozen": Fault("ppo adapter", "padded", frozen_critic),
    "chosen and rejected exchanged": Fault("dpo sigmoid", "padded", pairs_swapped),
    "references exchanged": Fault("dpo ipo", "padded", references_swapped),
    "reference of pairs with the adapter on": Fault("dpo sigmoid", "padded", always_on),
    "tail of a reply whole": Fault("dpo robust", "padded", in_config(DPOSettings, ld_alpha=None)),
    "margins subtracted": Fault("dpo hinge", "padded", negative_margins),
    "coefficient of pairs": Fault("dpo sppo_hard", "padded", in_config(DPOSettings, beta=0.1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(
    sound: Verification, model: Path, monkeypatch: Patch, name: str
) -> None:
    fault = FAULTS[name]
    fault.plant(monkeypatch)
    found = result(sound, model, fault.case, fault.layout)
    assert not found.equal
    assert not found.refused
    assert not found.difference <= FOUND * BOUND


@pytest.mark.slow
@pytest.mark.parametrize(("case", "layout"), sorted({fault[:2] for fault in FAULTS.values()}))
def test_without_a_fault_nothing_is_found(
    sound: Verification, model: Path, case: str, layout: str
) -> None:
    found = result(sound, model, case, layout)
    assert found.equal
    assert found.difference < BOUND / 5
    assert found.clipped is not None
    assert found.clipped >= 0.1


def test_at_least_twenty_faults_are_planted() -> None:
    assert len(FAULTS) >= 20
