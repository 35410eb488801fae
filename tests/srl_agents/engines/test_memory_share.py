"""vLLM gets a share of a GPU, and on a CPU what other programs leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.engines.vllm import memory_share
from srl_agents.engines.vllm.memory_share import (
    WITHOUT_TRAINER,
    host_memory,
    require_share,
    share_of,
)
from srl_envs.errors import ConfigError


@given(total=st.integers(1, 1 << 45), part=st.floats(0, 1))
def test_a_cpu_share_is_free_memory_and_no_more_than_a_gpu_share(total: int, part: float) -> None:
    free = int(total * part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_share, "host_memory", lambda: (total, free))
        share = share_of(None, WITHOUT_TRAINER, cpu=True)
        assert share_of(None, WITHOUT_TRAINER, cpu=False) == WITHOUT_TRAINER
        assert share_of(0.7, WITHOUT_TRAINER, cpu=True) == 0.7
    assert 0 < share <= WITHOUT_TRAINER
    if free / total > 0.05:  # below that vLLM itself refuses, and gives the numbers
        assert share * total <= free


def test_memory_is_read_as_vllm_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:  100 kB\nMemFree:  10 kB\nMemAvailable:  40 kB\n")
    assert host_memory(file) == (100 << 10, 40 << 10)
    total, free = host_memory(tmp_path / "absent")
    assert total == free > 0


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1])
def test_a_number_that_is_not_a_share_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="more than 0, at most 1, or leave it out"):
        require_share(share)
