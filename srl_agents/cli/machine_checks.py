"""The checks that `srl doctor` runs on a machine."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_agents.interrupts import EventLoop
from srl_envs import __version__
from srl_envs.distribution import install_command
from srl_envs.errors import SRLError

if TYPE_CHECKING:
    from srl_agents.engines.protocol import Engine
    from srl_agents.engines.settings import EngineSettings

_GIB = 2**30
_PACKAGES = ("torch", "transformers", "trl", "peft", "bitsandbytes", "vllm")
_LEAST_GIB, _LEAST_SHARED_GIB = 2.0, 0.06


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    good: bool
    message: str
    fix: str = ""
    """Remedy; empty for a check that passed."""


def examine() -> Iterator[Check]:
    """Every check in turn, those that take longest last."""
    yield from _packages()
    yield _disk()
    yield _shared_memory()
    yield _sandbox()
    if _version("torch"):
        yield _memory()
        yield _gpu()
        yield from _engines()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _packages() -> Iterator[Check]:
    yield Check(
        name="srl", good=True, message=f"{__version__} on Python {platform.python_version()}"
    )
    found = {name: _version(name) for name in _PACKAGES}
    versions = ", ".join(f"{name} {version or 'absent'}" for name, version in found.items())
    missing = not found["torch"]
    fix = f"to train, {install_command('train')}" if missing else ""
    yield Check(name="packages", good=not missing, message=versions, fix=fix)


def _disk() -> Check:
    free = shutil.disk_usage(".").free / _GIB
    fix = "" if free >= _LEAST_GIB else "free space, or work in another folder"
    return Check(name="disk", good=not fix, message=f"{free:.1f} GiB are free here", fix=fix)


def _shared_memory() -> Check:
    folder = Path("/dev/shm")
    if not folder.is_dir():
        return Check(name="shared memory", good=True, message="this system has no /dev/shm")
    size = shutil.disk_usage(folder).total / _GIB
    fix = "" if size > _LEAST_SHARED_GIB else "start the container with a larger --shm-size"
    return Check(name="shared memory", good=not fix, message=f"{size:.2f} GiB", fix=fix)


def _sandbox() -> Check:
    from srl_envs.sandbox import CodeExecutor

    try:
        with CodeExecutor() as executor:
            lacks = [f"no {name}: {why}" for name, why in executor.missing.items()]
            if os.getuid() != 0 and "own user per run" not in executor.layers:
                lacks.append("no user id per run: only root can give one")
            message = "; ".join([", ".join(executor.layers), *lacks])
            return Check(name="sandbox", good=True, message=message)
    except SRLError as error:
        fix = "see `srl docs sandbox`; only games without programs can be played"
        return Check(name="sandbox", good=False, message=str(error), fix=fix)


def _memory() -> Check:
    import torch

    from srl_agents.models.memory.available import memory_of

    memory = memory_of(torch.device("cpu"))
    message = f"{memory.free / _GIB:.1f} of {memory.total / _GIB:.1f} GiB are free"
    fix = "" if memory.free / _GIB >= _LEAST_GIB else "end other programs"
    return Check(name="host memory", good=not fix, message=message, fix=fix)


def _gpu() -> Check:
    import torch

    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        message = (
            f"{torch.cuda.get_device_name()}, {free / _GIB:.1f} of {total / _GIB:.1f} GiB are free, "
            f"CUDA {torch.version.cuda}, driver {_driver() or 'unknown'}"
        )
        return Check(name="GPU", good=True, message=message)
    if not Path("/dev/nvidia0").exists():
        return Check(name="GPU", good=True, message="none; models run on the CPU")
    return Check(
        name="GPU",
        good=False,
        message=f"driver {_driver() or 'unknown'} is loaded; torch {torch.__version__} cannot use the GPU",
        fix="install a build of torch for CUDA, and a driver that is new enough for it",
    )


def _driver() -> str:
    """Version of NVIDIA's kernel module; empty if it reports none."""
    try:
        printed = Path("/proc/driver/nvidia/version").read_text(encoding="ascii")
    except OSError:
        return ""
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\S+)", printed)
    return found[1] if found else ""


def _engines() -> Iterator[Check]:
    """One token of a small model through each engine that can run here; vLLM starts in a minute on a CPU."""
    from srl_agents.engines.settings import TransformersSettings
    from srl_agents.engines.vllm.options import PYTHON
    from srl_agents.engines.vllm.process_settings import VLLMProcessSettings
    from srl_agents.engines.vllm.settings import VLLMSettings

    yield _one_token("transformers", TransformersSettings())
    little: dict[str, Any] = {"max_length": 512, "cache_gib": 1, "compiled": False}
    if os.environ.get(PYTHON):
        yield _one_token("vllm", VLLMSettings(max_versions=1, restarts=0, **little))
    else:
        message = f"not tried: {PYTHON} names no interpreter with vLLM"
        yield Check(name="engine vllm", good=True, message=message)
    if _version("vllm"):
        yield _one_token("vllm_process", VLLMProcessSettings(max_versions=1, **little))
    else:
        message = "not tried: vllm is not installed beside SRL"
        yield Check(name="engine vllm_process", good=True, message=message)


def _one_token(kind: str, settings: EngineSettings) -> Check:
    from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
    from srl_agents.engines.settings import EngineSite
    from srl_agents.models.base_model import BaseModel
    from srl_agents.models.sources import random_model

    def engine_in(folder: Path) -> Engine:
        # vLLM's attention has no kernel for heads as narrow as those of tiny
        wide = kind != "transformers"
        name = str(random_model.build(folder / "model", hidden=256)) if wide else "tiny"
        site = EngineSite(
            base=BaseModel.load(name, device="cpu"),
            sampling=SamplingSettings(max_new_tokens=1),
            batch_rows=1,
            open_update=lambda _: {},
            folder=folder,
        )
        return settings.make_engine(site)

    async def write(engine: Engine) -> int:
        try:
            request = GenerationRequest(
                observation="Say one word.", version=None, key=(0,), deadline_s=60.0
            )
            return len((await engine.generate(request)).token_ids)
        finally:
            await engine.close()

    name, begun = f"engine {kind}", time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder, EventLoop() as loop:
            tokens = loop.run(write(engine_in(Path(folder))))
    except SRLError as error:
        fix = "mend that, or train with another engine.kind"
        return Check(name=name, good=False, message=str(error), fix=fix)
    took = f"{time.monotonic() - begun:.1f} s with its start"
    return Check(name=name, good=tokens == 1, message=f"wrote {tokens} token in {took}")
