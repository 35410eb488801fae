"""Values of SRL's own types as bytes and back, without pickle, for messages between processes.

A message is a length, a JSON text, and the bytes of its tensors and arrays one after the other. Reading makes
plain values, tensors, and dataclasses of this project's modules that are imported already; nothing that a
message names is called or imported. Processes without tensors need no torch.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from srl_envs.errors import ModelError

_LENGTH_BYTES = 8
_KIND = "!"
"""Key of a JSON object that stands for something that JSON does not have."""
_OURS = ("srl_envs", "srl_agents", "leaderboards")
_DTYPES = frozenset(
    {
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
    }
)
"""Number types of tensors."""
_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}


def to_bytes(value: Any) -> bytes:
    """A message.

    Args:
        value: None, numbers, text, bytes, lists, tuples, sets, mappings, arrays, tensors, and dataclasses of
            this project that hold such.

    Raises:
        TypeError: it holds something else.
    """
    blobs: list[bytes] = []
    text = json.dumps(_plain(value, blobs)).encode()
    return b"".join([len(text).to_bytes(_LENGTH_BYTES, "little"), text, *blobs])


def from_bytes(message: bytes) -> Any:
    """The value of a message.

    Raises:
        ModelError: the message is damaged, or names a class that is not one of ours.
    """
    try:
        start = _LENGTH_BYTES + int.from_bytes(message[:_LENGTH_BYTES], "little")
        return _value(json.loads(message[_LENGTH_BYTES:start]), memoryview(message)[start:])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        raise ModelError(
            f"a message of another process cannot be read ({type(error).__name__}: {error}). Start all "
            "processes of a run with one installation."
        ) from None


def _plain(value: Any, blobs: list[bytes]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return _plain(np.asarray(value), blobs) | {"scalar": True}
    torch = sys.modules.get("torch")
    if torch is not None and type(value) is torch.Size:
        return {_KIND: "size", "of": list(value)}
    if torch is not None and isinstance(value, torch.Tensor):
        own: Any = value.detach().cpu().contiguous()
        kept = own.reshape(-1).view(torch.uint8).numpy().tobytes()
        return _blob("tensor", kept, blobs) | {
            "dtype": str(own.dtype).removeprefix("torch."),
            "shape": list(own.shape),
        }
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _blob("array", value.tobytes(), blobs) | {
            "dtype": value.dtype.str,
            "shape": list(value.shape),
        }
    if isinstance(value, bytes | bytearray):
        return _blob("bytes", bytes(value), blobs)
    if type(value) is list:
        return [_plain(item, blobs) for item in value]
    for kind, sequence in _SEQUENCES.items():
        if type(value) is sequence:
            return {_KIND: kind, "of": [_plain(item, blobs) for item in value]}
    if isinstance(value, dict):
        pairs = [[_plain(k, blobs), _plain(v, blobs)] for k, v in value.items()]
        return {_KIND: "dict", "of": pairs}
    return _dataclass(value, blobs)


def _dataclass(value: Any, blobs: list[bytes]) -> Any:
    own = type(value)
    if not dataclasses.is_dataclass(own) or own.__module__.partition(".")[0] not in _OURS:
        raise TypeError(
            f"{own.__module__}.{own.__qualname__} cannot be sent to another process: send plain values, "
            "arrays, tensors or dataclasses of this project."
        )
    fields = {f.name: _plain(getattr(value, f.name), blobs) for f in dataclasses.fields(own)}
    return {_KIND: "dataclass", "of": fields, "class": [own.__module__, own.__qualname__]}


def _blob(kind: str, data: bytes, blobs: list[bytes]) -> dict[str, Any]:
    at = sum(map(len, blobs))
    blobs.append(data)
    return {_KIND: kind, "at": at, "size": len(data)}


def _value(plain: Any, blobs: memoryview) -> Any:
    if isinstance(plain, list):
        return [_value(item, blobs) for item in plain]
    if not isinstance(plain, dict):
        return plain
    kind = plain[_KIND]
    if kind == "dict":
        return {_value(k, blobs): _value(v, blobs) for k, v in plain["of"]}
    if kind == "dataclass":
        return _made(plain, blobs)
    if kind == "size":
        return _torch().Size(plain["of"])
    if kind in _SEQUENCES:
        return _SEQUENCES[kind]([_value(item, blobs) for item in plain["of"]])
    data = bytearray(blobs[plain["at"] : plain["at"] + plain["size"]])
    if len(data) != plain["size"]:
        raise ValueError("its end is missing")
    if kind == "bytes":
        return bytes(data)
    if kind == "tensor":
        torch, shape = _torch(), plain["shape"]
        if plain["dtype"] not in _DTYPES:
            raise ValueError(f"unknown type {plain['dtype']!r}")
        dtype = getattr(torch, plain["dtype"])
        if not data:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(shape)
    if kind != "array" or np.dtype(plain["dtype"]).hasobject:
        raise ValueError(f"unknown kind {kind!r}")
    array = np.frombuffer(data, dtype=np.dtype(plain["dtype"])).reshape(plain["shape"])
    return array[()] if plain.get("scalar") else array


def _torch() -> ModuleType:
    """Torch, where a message has tensors."""
    import torch  # noqa: PLC0415 - seconds, which processes that replay matches do not have

    return torch


def _made(plain: Any, blobs: memoryview) -> Any:
    """A dataclass of ours, as it was: no check of it runs again, and no code of the message."""
    module, name = plain["class"]
    if module.partition(".")[0] not in _OURS:
        raise ValueError(f"{module} is not one of ours")
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = vars(found)[part]
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise ValueError(f"{name} is not a dataclass")
    values = {key: _value(item, blobs) for key, item in plain["of"].items()}
    if values.keys() != {field.name for field in dataclasses.fields(found)}:
        raise ValueError(f"{name} has other fields here")
    made = object.__new__(found)
    for key, item in values.items():
        object.__setattr__(made, key, item)
    return made
