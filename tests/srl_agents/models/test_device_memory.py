"""Running out of memory names the work and what to lower."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from srl_agents.models.base_model import BaseModel
from srl_agents.models.memory.available import memory_limit
from srl_agents.models.sources import random_model
from srl_envs.errors import MemoryLimitError, SRLError

TOO_MANY = 2**50


@pytest.mark.parametrize(
    "work",
    [
        lambda: torch.empty(TOO_MANY),
        lambda: np.empty(TOO_MANY),
        lambda: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA out of memory. Tried ...")),
        lambda: (_ for _ in ()).throw(
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when ...")
        ),
    ],
    ids=["torch", "numpy", "cuda", "cublas"],
)
def test_every_library_that_runs_out_is_named_alike(work: Callable[[], object]) -> None:
    said = r"^a game of 7 rows: out of memory \(.+\)\. Lower x\.$"
    with (
        pytest.raises(MemoryLimitError, match=said) as raised,
        memory_limit("a game of 7 rows", "x"),
    ):
        work()
    assert isinstance(raised.value, MemoryError)
    assert isinstance(raised.value, SRLError)
    assert raised.value.__cause__ is not None


def test_the_innermost_work_is_named() -> None:
    inner, outer = memory_limit("inner", "y"), memory_limit("outer", "x")
    with pytest.raises(MemoryLimitError, match=r"^inner"), outer, inner:
        torch.empty(TOO_MANY)


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="size of tensor") as raised, memory_limit("work", "x"):
        torch.ones(2) + torch.ones(3)
    assert not isinstance(raised.value, SRLError)


def test_a_model_that_does_not_fit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = random_model.build(tmp_path)
    monkeypatch.setattr(torch.nn.Module, "to", lambda *_args, **_kwargs: torch.empty(TOO_MANY))
    with pytest.raises(MemoryLimitError, match=f"loading {folder} on cpu: .*dtype to bfloat16"):
        BaseModel.load(folder, device="cpu")
