"""One random model folder for all tests of models and engines."""

from pathlib import Path

import pytest

from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model.build(tmp_path_factory.mktemp("model") / "qwen3")


@pytest.fixture
def base(model_folder: Path) -> BaseModel:
    return BaseModel.load(model_folder, lora_rank=4, device="cpu")
