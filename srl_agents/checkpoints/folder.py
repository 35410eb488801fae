"""One checkpoint is one folder of safetensors and JSON that either exists whole or not at all.

Files are written into a temporary folder and flushed, then a manifest with their hashes, then
the folder gets its name in one rename. A process that is killed leaves no half checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from srl_agents.own_folders import flush
from srl_agents.tensor_files import save_tensors
from srl_envs.errors import CheckpointError, ConfigError

_FORMAT = 1
_MANIFEST, _STATE = "manifest.json", "state.json"
_STEP = re.compile(r"step-(\d{8,})")
_NAME = re.compile(r"[A-Za-z0-9_@.\-]+")
_TEMPORARY = ".tmp-"
_ASIDE = "given-up-"
_SAVING = threading.Lock()
"""A thread that ends a run may save while another one does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """The arguments of `save`, as read back."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]
    score: float | None = None


def save(
    folder: Path,
    step: int,
    tensors: dict[str, dict[str, Tensor]],
    state: dict[str, Any],
    *,
    keep: int = 3,
    score: float | None = None,
    keep_best: int = 0,
    whole: Callable[[], object] = lambda: None,
) -> Path:
    """Write checkpoint `step`, then remove all but the newest `keep` and the best `keep_best`.

    Args:
        folder: holds the checkpoints of one run; made if absent. One writer at a time.
        step: number of updates done.
        tensors: groups of named tensors, one file each; groups are named with letters, digits
            and ``_@.-``.
        state: anything JSON can hold; it comes back as JSON gives it (tuples as lists).
        keep: 1 or more.
        score: how good what it holds is, if that was measured; more is better.
        keep_best: how many of the highest scores stay besides; of equal ones the newest.
        whole: called when all is written, just before the checkpoint can be found.

    Returns:
        The checkpoint's folder.

    Raises:
        ConfigError: `keep` is below 1, the score is not finite, or a group's name does not do for
            a file.
    """
    if keep < 1:
        raise ConfigError(f"keep={keep}: keep 1 checkpoint or more.")
    if score is not None and not math.isfinite(score):
        raise ConfigError(f"score={score}: give a finite number, or None where none was measured.")
    for name in tensors:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"tensor group {name!r}: use letters, digits and _@.- only.")
    with _SAVING:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            work = _written(folder, step, tensors, state, score)
            whole()
            final = _named(folder, step, work)
        except BaseException:  # a full disk gets its space back
            _remove_temporary(folder)
            raise
        stay = {*_numbered(folder)[-keep:], *_by_score(folder)[:keep_best]}
        for old in set(_numbered(folder)) - stay:
            old.rename(folder / f"{_TEMPORARY}old-{old.name}")
        _remove_temporary(folder)
    return final


def _written(
    folder: Path,
    step: int,
    tensors: dict[str, dict[str, Tensor]],
    state: dict[str, Any],
    score: float | None,
) -> Path:
    """Write one checkpoint, which has no name yet; returns where it is."""
    _remove_temporary(folder)
    work = folder / f"{_TEMPORARY}{_folder_name(step)}"
    work.mkdir()
    for name, group in tensors.items():
        save_tensors({key: t.contiguous() for key, t in group.items()}, _group_file(work, name))
    (work / _STATE).write_text(json.dumps(state, sort_keys=True, allow_nan=False))
    hashes = {path.name: sha256_of(path) for path in sorted(work.iterdir())}
    for path in work.iterdir():
        flush(path)
    manifest = {
        "format": _FORMAT,
        "step": step,
        "score": score,
        "groups": sorted(tensors),
        "sha256": hashes,
    }
    (work / _MANIFEST).write_text(json.dumps(manifest | {"seal": seal_of(manifest)}, indent=1))
    flush(work / _MANIFEST)
    flush(work)
    return work


def _named(folder: Path, step: int, work: Path) -> Path:
    """Give a written checkpoint its name."""
    final = folder / _folder_name(step)
    if final.exists():  # a damaged one that was skipped on resume
        final.rename(folder / f"{_TEMPORARY}old-{final.name}")
    work.rename(final)
    flush(folder)
    return final


def exist(folder: Path) -> bool:
    """Whether there are checkpoints, whole or not."""
    return bool(_numbered(folder))


def steps(folder: Path) -> list[int]:
    """Steps of all checkpoints, whole or not, ascending."""
    return [step_of(path) for path in _numbered(folder)]


def step_of(path: Path) -> int:
    """Step of a checkpoint, from its folder's name."""
    return int(path.name.removeprefix("step-"))


def newest_step(folder: Path) -> int:
    """The step of the newest checkpoint, whole or not; 0 if there is none."""
    return max(steps(folder), default=0)


def set_aside(folder: Path, first: int) -> list[Path]:
    """Rename checkpoints of step `first` and later, so that no run resumes from them; their files stay.

    Returns:
        Where they are now.
    """
    moved = []
    for path in _numbered(folder):
        if step_of(path) >= first:
            aside = folder / f"{_ASIDE}{path.name}"
            shutil.rmtree(aside, ignore_errors=True)
            moved.append(path.rename(aside))
    return moved


def latest(folder: Path) -> Path | None:
    """The newest whole checkpoint; None if there has never been one.

    Damaged ones are passed over with a warning.

    Raises:
        CheckpointError: there are checkpoints and all are damaged.
    """
    damage: list[str] = []
    for path in reversed(_numbered(folder)):
        try:
            _verify(path)
        except CheckpointError as error:
            damage.append(str(error))
            continue
        for text in damage:
            warnings.warn(f"{text} Going back to {path.name}.", stacklevel=2)
        return path
    if damage:
        raise CheckpointError(
            f"no checkpoint in {folder} is whole: {' '.join(damage)} "
            "Restore one from a backup, or start the run in another folder."
        )
    return None


def best(folder: Path) -> Path | None:
    """The whole checkpoint with the highest score, the newest of equals; None without scores."""
    for path in _by_score(folder):
        try:
            _verify(path)
        except CheckpointError as error:
            warnings.warn(f"{error} Taking the next best.", stacklevel=2)
            continue
        return path
    return None


def load(path: Path) -> Checkpoint:
    """Read and verify one checkpoint.

    Raises:
        CheckpointError: it is incomplete or damaged.
    """
    manifest = _verify(path)
    try:
        tensors = {name: load_file(_group_file(path, name)) for name in manifest["groups"]}
        state = json.loads((path / _STATE).read_text())
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from error
    return Checkpoint(
        step=manifest["step"], tensors=tensors, state=state, score=manifest.get("score")
    )


def state_of(path: Path) -> dict[str, Any]:
    """The state in one checkpoint that `latest` named, without its tensors."""
    state: dict[str, Any] = json.loads((path / _STATE).read_text())
    return state


def _verify(path: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((path / _MANIFEST).read_text())
        if manifest["format"] != _FORMAT:
            raise CheckpointError(
                f"{path} has format {manifest['format']}, this SRL reads {_FORMAT}."
            )
        expected = manifest["sha256"]
        seal = manifest.pop("seal", None)  # absent in what was written before there were seals
        files = {_STATE, *(_group_file(path, name).name for name in manifest["groups"])}
        if seal not in (None, seal_of(manifest)) or path.name != _folder_name(manifest["step"]):
            raise CheckpointError(f"{path} is damaged: {_MANIFEST} changed on disk.")
        if set(expected) != files:
            raise CheckpointError(f"{path} is damaged: {_MANIFEST} lists other files.")
        wrong = [name for name in expected if sha256_of(path / name) != expected[name]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path} is incomplete ({type(error).__name__}).") from error
    if wrong:
        raise CheckpointError(f"{path} is damaged: {', '.join(wrong)} changed on disk.")
    return manifest


def _numbered(folder: Path) -> list[Path]:
    """Checkpoint folders, oldest first."""
    if not folder.is_dir():
        return []
    found = [(int(m[1]), p) for p in folder.iterdir() if (m := _STEP.fullmatch(p.name))]
    return [path for _, path in sorted(found)]


def _by_score(folder: Path) -> list[Path]:
    """Checkpoints that have a score, best first, newer first of equals."""
    scored = []
    for age, path in enumerate(_numbered(folder)):
        try:
            score = json.loads((path / _MANIFEST).read_text()).get("score")
        except (OSError, ValueError, AttributeError):
            continue  # `latest` reports damage
        if isinstance(score, int | float):
            scored.append((score, age, path))
    return [path for _, _, path in sorted(scored, reverse=True)]


def _folder_name(step: int) -> str:
    return f"step-{step:08d}"


def seal_of(manifest: dict[str, Any]) -> str:
    """Hash of a manifest, which holds the hashes of all other files."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _group_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


def sha256_of(path: Path) -> str:
    """Hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_entry(path: Path) -> None:
    """Remove a file, a link, or a folder with what it holds, if one is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink(missing_ok=True)


def _remove_temporary(folder: Path) -> None:
    for path in folder.glob(f"{_TEMPORARY}*"):
        remove_entry(path)
