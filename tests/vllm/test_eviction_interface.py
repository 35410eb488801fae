"""Our eviction policy against vLLM's imported interface, in vLLM's own environment; `make vllm` runs this."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from srl_agents.engines.vllm.options import PYTHON

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not os.environ.get(PYTHON), reason=f"{PYTHON} names no interpreter"),
]
ROOT = Path(__file__).parents[2]
CONTRACT = "tests/srl_agents/caching/test_vllm_policy.py"


def test_the_contract_holds_where_vllm_is_installed() -> None:
    """vLLM's packages come first; pytest is borrowed from ours."""
    ours = str(Path(pytest.__file__).parents[1])
    arguments = [CONTRACT, "--noconftest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
    program = (
        f"import sys; sys.path.append({ours!r}); sys.path.insert(0, {str(ROOT)!r}); import pytest; "
        f"sys.exit(pytest.main({arguments!r}))"
    )
    done = subprocess.run(
        [os.environ[PYTHON], "-W", "ignore", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
