"""Rows in one sequence without padding give what padded rows give."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.models.base_model import BaseModel
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.passes.packed_rows import pack_rows
from srl_envs.errors import ConfigError
from tests.srl_agents.trainers.test_shared_prefixes import assert_same_gradients, disturb

ROWS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=5)


@given(ROWS)
def test_a_layout_holds_every_token_once_and_gives_completions_back(
    rows: list[tuple[int, int]],
) -> None:
    width, tokens = max(p for p, _ in rows), max(t for _, t in rows)
    mask = torch.zeros(len(rows), width + tokens, dtype=torch.bool)
    for number, (prompt, reply) in enumerate(rows):
        mask[number, width - prompt : width + reply] = True
    ids = torch.arange(mask.numel()).reshape(mask.shape)
    acted = (torch.arange(mask.shape[1]) >= width - 1)[None]

    packed = pack_rows(ids, mask, tokens, acted)

    assert packed.input_ids_1N[0].tolist() == ids[mask].tolist()
    whole = [place for prompt, reply in rows for place in range(prompt + reply)]
    assert packed.position_ids_1N[0].tolist() == whole
    in_rows = packed.rows(packed.labels_1N)  # what each place predicts, brought back to its row
    assert in_rows.tolist() == ids[:, -tokens:].masked_fill(~mask[:, -tokens:], 0).tolist()
    assert int(packed.acted_1N.sum()) == int((acted & mask).sum())


@pytest.mark.parametrize("variant", ["dapo", "rloo"])
def test_gradients_are_those_of_padded_rows(base: BaseModel, sample: Any, variant: Any) -> None:
    kl = 0.0 if variant == "rloo" else 0.1
    padded, packed = (
        GRPOLearner(
            name,
            base,
            GRPOSettings(variant=variant, kl_coef=kl, micro_batch_rows=4, pack_rows=pack),
            temperature=1.0,
            seed=1,
        )
        for name, pack in (("alice", False), ("bob", True))
    )
    disturb(base, "alice")
    assert_same_gradients(padded, packed, sample(base, "alice"))


@pytest.mark.parametrize(
    ("attention", "settings", "words"),
    [
        ("auto", {"pack_rows": True}, "need flash-attn's kernels.*pip|flash_attention_2"),
        ("flash_attention_2", {"share_prefixes": True}, "share_prefixes.*pack_rows"),
    ],
)
def test_a_layout_without_its_kernels_is_refused_when_the_recipe_is_read(
    attention: Any, settings: dict[str, bool], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        LeagueRecipe(
            name="r",
            model="tiny",
            env="nim-v0",
            attention=attention,
            training=GRPOSettings(**settings),  # type: ignore[arg-type]
        )


def test_two_layouts_of_one_batch_are_refused() -> None:
    with pytest.raises(ConfigError, match="two layouts"):
        GRPOSettings(pack_rows=True, share_prefixes=True)
