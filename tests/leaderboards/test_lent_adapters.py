"""A board holds an agent's adapter once, and every bundle of that agent is audited with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from leaderboards.bundles.lent_adapters import lent_adapters
from leaderboards.bundles.submission import adapter_folder, write_bundle
from leaderboards.bundles.verify import verify
from leaderboards.cli.verify import weights
from leaderboards.contents.intake import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from srl_agents.models.base_model import BaseModel
from srl_envs.errors import ConfigError
from tests.leaderboards.forging import make_bundle

AGENT = "alice@3"


def saved(folder: Path, value: float) -> Path:
    model = BaseModel.load("tiny", lora_rank=2, lora_alpha=4)
    model.add_adapter("a", seed=1)
    with torch.no_grad():
        for name, tensor in model.trainable_parameters("a").items():
            if "lora_B" in name:
                tensor.fill_(value)
    model.save_adapter("a", folder)
    return folder


@pytest.mark.slow
def test_one_bundle_lends_its_adapter_and_the_digest_is_held(tmp_path: Path) -> None:
    agents = (f"{AGENT}=tiny+{saved(tmp_path / 'adapter', 0.02)}",)
    whole = make_bundle(tmp_path, "kuhn_poker-v0", agents, 8, with_adapters=True).folder
    bare = write_bundle(tmp_path / "run", tmp_path / "bare").folder
    assert not adapter_folder(bare, AGENT).exists()
    assert lent_adapters([bare]) == [{}]
    with pytest.raises(ConfigError, match="is not in the bundle"):
        verify(bare, "L3", workers=0)

    own, lent = weights({}, [whole, bare])
    assert own == {}
    verdict = verify(bare, "L3", workers=0, sources=lent)
    assert (verdict.accepted, verdict.reached) == (True, "L3"), verdict.rejected
    assert weights({}, [bare], [whole]) == [lent]
    assert weights({AGENT: "tiny+elsewhere"}, [bare], [whole]) == [{AGENT: "tiny+elsewhere"}]

    forged = adapter_folder(whole, AGENT)
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        shutil.copyfile(saved(tmp_path / "other", 0.03) / name, forged / name)
    verdict = verify(bare, "L3", workers=0, sources=lent)
    assert "adapter" in verdict.rejected
