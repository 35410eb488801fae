"""A model with some of its layers left out: a second base of another depth, made on this machine."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

_WEIGHTS, _CONFIG, _LAYER = "model.safetensors", "config.json", "model.layers."


def without_layers(source: Path, target: Path, left_out: Sequence[int]) -> Path:
    """Write a model's folder again without some layers; equal sources give equal weights.

    Args:
        source: folder of a model whose weights are one file, with layers called ``model.layers.N``.
        target: folder to make; appears whole or not at all.
        left_out: numbers of layers, from 0.

    Returns:
        ``target``.
    """
    from safetensors.numpy import load_file, save_file  # noqa: PLC0415 - only who makes one

    config = json.loads((source / _CONFIG).read_text(encoding="utf-8"))
    stay = [n for n in range(int(config["num_hidden_layers"])) if n not in left_out]
    names = {str(old): str(new) for new, old in enumerate(stay)}
    tensors = {}
    for key, tensor in load_file(source / _WEIGHTS).items():
        number, dot, rest = key.removeprefix(_LAYER).partition(".")
        if not key.startswith(_LAYER):
            tensors[key] = tensor
        elif number in names:
            tensors[f"{_LAYER}{names[number]}{dot}{rest}"] = tensor
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        left_behind = shutil.ignore_patterns(_WEIGHTS, _CONFIG, "README.md", "manifest.json")
        shutil.copytree(source, made, ignore=left_behind)
        save_file(tensors, made / _WEIGHTS, metadata={"format": "pt"})
        text = json.dumps(config | {"num_hidden_layers": len(stay)}, indent=2)
        (made / _CONFIG).write_text(text, encoding="utf-8")
        try:
            os.rename(made, target)
        except OSError:  # another process was faster
            if not (target / _CONFIG).is_file():
                raise
    return target
