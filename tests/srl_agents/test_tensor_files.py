"""Tensors that do not fit on a disk: the error is the system's, and names the file."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from srl_agents.tensor_files import save_tensors

_LIMITED = """
import resource, signal, sys
from pathlib import Path
import torch
from srl_agents.tensor_files import save_tensors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    save_tensors({"a": torch.zeros(100_000)}, Path(sys.argv[1]))
except OSError as error:
    print(error.errno, error.filename)
"""


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    save_tensors({"a": torch.arange(3.0)}, tmp_path / "a.safetensors")
    assert torch.equal(load_file(tmp_path / "a.safetensors")["a"], torch.arange(3.0))


@pytest.mark.slow
def test_a_file_that_is_too_large_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{errno.EFBIG} {path}\n"


def test_a_folder_that_is_absent_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "a.safetensors"
    with pytest.raises(OSError, match="No such file or directory") as error:
        save_tensors({"a": torch.zeros(1)}, path)
    assert error.value.filename == str(path)
