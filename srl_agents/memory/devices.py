"""Devices that a run may be planned for: memory and rates, as vendors and drivers state them.

Rates are rooflines. The share of the peak that a program reaches is an assumption until it was
measured; the plan marks it as one.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from srl_envs.errors import ConfigError, nearest

GIB = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A device to plan for: memory, rates and their source."""

    name: str
    memory_bytes: float
    """Memory that a process can allocate."""
    peak_flops: float
    """Dense operations per second, in bfloat16 where there is a unit for it."""
    memory_bytes_per_s: float
    overhead_bytes: float
    """Of a process before it has a model: libraries, on a GPU the context and workspaces."""
    slack: float
    """Share of what tensors take that the allocator holds beside them."""
    accelerator: bool = True
    mfu: float = 0.4
    """Share of the peak that training and reading prompts reach."""
    half_speed: float = 1.0
    """Times the peak that products of a bfloat16 base reach, where the peak is that of float32."""
    host_s_per_layer: float = 0.0
    """Least time of one layer in one pass: what the host needs to start its kernels, one by one."""
    source: str = ""

    @property
    def unit(self) -> tuple[str, float]:
        """Name and bytes of the unit in which its memory is sold: cards of 80 GB have 79 GiB, near 80 x 2^30.

        A size such as ``48GB`` keeps its own.
        """
        decimal = self.name[0].isdigit() and not self.name.upper().endswith("IB")
        return ("GB", 1e9) if decimal else ("GiB", float(GIB))


_CONTEXT = 0.5e9 + 0.3e9
"""CUDA's context (470 MiB by a bare process on an Ada card: 3DTopia/Phidias-Diffusion issue 8) and the
workspaces of cuBLAS (up to 32 MiB per handle on Hopper: torch's documentation of CUBLAS_WORKSPACE_CONFIG), of
attention kernels and of bitsandbytes. To be replaced by what a card measures."""
_SLACK = 0.06
"""Reserved and unused by torch's caching allocator. Out-of-memory messages of long runs report 1 to 20 %
(213 MiB of 13.9 GiB in the issue above); with expandable segments the low end. Assumed, not measured here."""
_HOST_S = 4.5e-3
"""14 layers with one adapter of rank 16 took 72 ms of host time a decoding step of 64 rows under a profiler,
on the host of an H100 with torch 2.11; an eighth of that is taken, by estimate, for the profiler's own.
Learning agrees: 3.8 ms (Qwen2.5-1.5B) and 5.9 ms (7B) per layer, pass and micro-batch
(docs/reference/gpu_checks.md)."""
CAPTURED = 1.0e-3 / _HOST_S
"""Share of that where a decoding step is one CUDA graph, such that planned generation takes as long as
measured, prompts included: .8 ms for the shape of Qwen2.5-1.5B at 63 live rows (13.0 s), 1.2 ms for that of
7B at 32 (4.3 s), both on an H100 with one adapter."""

_LESS = "capacity as far as drivers leave it, rounded down, not measured here"

DEVICES = {
    target.name: target
    for target in (
        Target(
            name="a100-80gb", memory_bytes=79.2 * GIB, peak_flops=312e12, memory_bytes_per_s=2.039e12,
            overhead_bytes=_CONTEXT, slack=_SLACK, host_s_per_layer=_HOST_S,
            source="NVIDIA A100 data sheet (SXM); capacity as torch reports it, 79.25 GiB (Vad-R1 issue 11)",
        ),
        Target(
            name="h100-80gb", memory_bytes=79.1 * GIB, peak_flops=989e12, memory_bytes_per_s=3.35e12,
            overhead_bytes=_CONTEXT, slack=_SLACK, host_s_per_layer=_HOST_S,
            source="NVIDIA H100 data sheet (SXM), dense bfloat16",
        ),
        Target(
            name="rtx4090", memory_bytes=23.6 * GIB, peak_flops=165.2e12, memory_bytes_per_s=1.008e12,
            overhead_bytes=_CONTEXT, slack=_SLACK, host_s_per_layer=_HOST_S,
            source="NVIDIA Ada architecture paper (dense bfloat16, float32 sums); capacity as torch "
            "reports it, 23.64 GiB (VGen issue 104)",
        ),
        *(
            Target(
                name=name, memory_bytes=gib * GIB, peak_flops=teraflops * 1e12,
                memory_bytes_per_s=gb_per_s * 1e9, overhead_bytes=_CONTEXT, slack=_SLACK,
                host_s_per_layer=_HOST_S,
                source=f"NVIDIA {sheet} (dense bfloat16, float32 sums); {capacity}",
            )
            for name, gib, teraflops, gb_per_s, sheet, capacity in (
                ("h200", 139.7, 989, 4800, "H200 data sheet (SXM)", _LESS),
                ("a100-40gb", 39.4, 312, 1555, "A100 data sheet (SXM)", _LESS),
                ("l40s", 44.4, 362, 864, "L40S data sheet", "an L40 has 44.40 GiB (Qwen3-VL issue 2097)"),
                ("l4", 22.0, 121, 300, "L4 data sheet", _LESS),
                ("a10g", 22.0, 70, 600, "A10G data sheet", _LESS),
                ("rtx3090", 23.6, 71, 936, "Ampere GA102 architecture paper", _LESS),
                ("rtx5090", 31.3, 209.5, 1792, "RTX Blackwell architecture paper", _LESS),
            )
        ),
    )
}  # fmt: skip

PROCESS_BYTES = 0.592e9
"""Resident after a short step of a model that weighs next to nothing, with torch 2.13, transformers,
TRL, PEFT and bitsandbytes on Linux: 565 MiB, of which 534 were there after the imports; the rest are pages of
kernels and of the optimizer's code. ``after_first_step_mib`` in the last case of
`benchmarks.memory.planned_peaks` measures it."""
RUN_BYTES = 0.22e9
"""What a run has beside that on a CPU: games, records, heaps of the engine's threads, kernels that oneDNN
keeps, and gaps of blocks too small to be given back. Peaks of `quickstart-tiny` and `two-bases-tiny` (4 and 3
updates, 925 and 976 MB) less the rest of their plans: 217 and 174 MB."""
_CPU_SLACK = 0.02
"""glibc returns large blocks at once; small ones and fragments stay (benchmarks.memory.planned_peaks)."""
_HALF_SPEED = 1.5
"""An instruction for products of bfloat16 pairs (AVX512_BF16) takes twice the factors of one for float32.
Casts for LoRA's factors, norms and softmax stay float32."""
_UNITS = {"": 1.0, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
          "KIB": 2.0**10, "MIB": 2.0**20, "GIB": 2.0**30, "TIB": 2.0**40}  # fmt: skip
_MOST_BYTES = 1e15
_SIZE = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([KMGT]?I?B?)", re.IGNORECASE)


def target_of(name: str) -> Target:
    """A device by name, this machine (``cpu``), or a size such as ``48GB`` with an A100's rates.

    A name may be written as on the box (``RTX 4090``) and cut short (``h100``) where one device has it.

    Raises:
        ConfigError: none of these.
    """
    if name == "cpu":
        return this_machine()
    usual = re.sub(r"[\s_-]+", "-", name.strip().lower())
    usual = re.sub(r"nvidia-|geforce-|(?<=rtx)-", "", usual)
    meant = [own for own in DEVICES if f"{own}-".startswith((f"{usual}-", f"rtx{usual}-"))]
    if len(meant) == 1:
        return DEVICES[meant[0]]
    if meant:
        raise ConfigError(f"device={name!r}: {' or '.join(meant)}?")
    found = _SIZE.fullmatch(name.strip())
    if found is None or found[2].upper() not in _UNITS or not _sized(found):
        known = (*DEVICES, "cpu")
        raise ConfigError(
            f"device={name!r}: no such device.{nearest(name, known)} Use {', '.join(known)}, or a size such "
            "as 48GB or 40GiB, 1000TB at most."
        )
    like = DEVICES["a100-80gb"]
    return Target(
        name=name,
        memory_bytes=float(found[1]) * _UNITS[found[2].upper()],
        peak_flops=like.peak_flops,
        memory_bytes_per_s=like.memory_bytes_per_s,
        overhead_bytes=like.overhead_bytes,
        slack=like.slack,
        host_s_per_layer=like.host_s_per_layer,
        source=f"the size that was given, with the rates of {like.name}",
    )


def _sized(found: re.Match[str]) -> bool:
    return 0 < float(found[1]) * _UNITS[found[2].upper()] <= _MOST_BYTES


def this_machine(memory_bytes: float | None = None) -> Target:
    """This machine's CPU: memory that is available now, and rates that numpy reaches in a tenth of a second.

    Args:
        memory_bytes: instead of what is available.
    """
    flops, moved = _measured_rates()
    return Target(
        name="cpu",
        memory_bytes=available_bytes() if memory_bytes is None else memory_bytes,
        peak_flops=flops,
        memory_bytes_per_s=moved,
        overhead_bytes=PROCESS_BYTES + RUN_BYTES,
        slack=_CPU_SLACK,
        accelerator=False,
        mfu=0.5,
        half_speed=_HALF_SPEED if _has_half_products() else 1.0,
        host_s_per_layer=0.5e-3,
        source="available memory; rates of numpy's float32 product and copy, measured now",
    )


def available_bytes() -> float:
    """Memory that a process can take now: of the machine, or less where its control group allows less."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    free = kib["MemAvailable"] * 1024.0
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (
            (group / f"memory.{name}").read_text(encoding="ascii").strip()
            for name in ("max", "current")
        )
    except OSError:
        return free
    return min(free, float(limit) - float(used)) if limit.isdigit() and used.isdigit() else free


def _has_half_products() -> bool:
    """Whether this CPU multiplies bfloat16 itself, as Linux lists its instructions."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:  # not Linux
        return False
    return "bf16" in text


def _measured_rates() -> tuple[float, float]:
    """(operations, bytes) per second of one thread: the best of some short trials each."""
    size, repeats = 64, 40  # below the size from which OpenBLAS uses several threads
    left = np.ones((size, size), np.float32)
    block = np.ones(2_000_000, np.float32)
    other = np.empty_like(block)
    products, copies = [], []
    for _ in range(20):
        begun = time.perf_counter()
        for _ in range(repeats):
            left @ left
        products.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        np.copyto(other, block)
        copies.append(time.perf_counter() - begun)
    return repeats * 2.0 * size**3 / min(products), 2.0 * block.nbytes / min(copies)
