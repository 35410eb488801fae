"""A model that plays lets go of its copies of the base's weights, and has the same ones after waking."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from srl_agents.models.base_model import BaseModel
from srl_agents.models.playing_model import LoRAPlaying
from srl_agents.models.sources import random_model


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="oneDNN is absent")
def test_copies_leave_while_it_sleeps_and_come_back_bit_for_bit(tmp_path: Path) -> None:
    base = BaseModel.load(random_model.build(tmp_path / "model"), device="cpu")
    playing = base.playing()
    assert isinstance(playing, LoRAPlaying)
    layer = playing._packed[0]
    inputs = torch.randn(3, layer.in_features)
    with torch.no_grad():
        before = layer(inputs)

        playing.rest(asleep=True)
        assert all(own._packed is None for own in playing._packed)
        playing.rest(asleep=False)

        assert all(own._packed is not None for own in playing._packed)
        assert torch.equal(layer(inputs), before)
