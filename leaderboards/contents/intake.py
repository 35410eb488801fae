"""Read an untrusted folder: only regular files, by their names, within bounds.

Every file is opened relative to the descriptor of its folder without following a link, so neither a
symbolic link nor a folder that is exchanged between two looks leads out of the bundle. Pipes, sockets
and devices are never opened. `private_copy` copies what is allowed into a private folder; that copy is
checked, and that copy is published.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from leaderboards.contents.fields import shown
from srl_agents.own_folders import scratch
from srl_agents.records import canonical_json
from srl_envs.errors import SRLError

MANIFEST, RATINGS = "manifest.json", "ratings.json"
MATCHES, TRANSCRIPTS, TOKENS = "matches.jsonl.xz", "transcripts.jsonl.xz", "tokens.jsonl.xz"
ADAPTERS = "adapters"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ROOT_DIGITS = 16
BUNDLE_NAME = re.compile(f"[0-9a-f]{{{ROOT_DIGITS}}}")

MOST_ENTRANTS = 64
MOST_BYTES = {
    MANIFEST: 4 << 20,
    RATINGS: 4 << 20,
    MATCHES: 64 << 20,
    TRANSCRIPTS: 256 << 20,
    TOKENS: 512 << 20,
    ADAPTER_CONFIG: 1 << 20,
    ADAPTER_WEIGHTS: 2 << 30,
}
"""Most bytes of each file on disk."""
MOST_BUNDLE_BYTES = 4 << 30
MOST_LINE_BYTES = 4 << 20
"""Most bytes of one record, unpacked."""
MOST_UNPACKED_BYTES = 2 << 30
"""Most bytes of one file of records, unpacked."""
_XZ_MEMORY = 96 << 20
"""What unpacking may take: the strongest preset of xz needs 65 MiB."""
_CHUNK = 1 << 20

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

Line = dict[str, Any]


class BundleError(SRLError, ValueError):
    """A bundle is damaged or does not fit its protocol; the text names the first bad part."""


@dataclass(frozen=True, slots=True)
class PrivateCopy:
    """A private copy of an untrusted folder, which its author cannot change."""

    folder: Path
    source: Path
    """Folder that was copied."""
    files: dict[str, dict[str, Any]]
    """Name -> hash and size of what was taken, the manifest left out."""


@contextmanager
def private_copy(folder: Path) -> Iterator[PrivateCopy]:
    """A copy for the length of a block, in a folder that only this user may enter.

    Args:
        folder: of the bundle; its last part may be no link, what lies before it is the caller's.

    Raises:
        BundleError: the folder holds something that does not belong to a bundle, or too much.
    """
    name = Path(os.path.abspath(folder)).name
    if not BUNDLE_NAME.fullmatch(name):
        raise BundleError(
            f"{shown(name)} is not the name of a bundle: that is {ROOT_DIGITS} hexadecimal digits."
        )
    with scratch("bundle") as own:
        target = own / name
        yield PrivateCopy(target, folder, take(folder, target))


def take(source: Path, target: Path) -> dict[str, dict[str, Any]]:
    """Copy a bundle's files by the list of allowed names.

    Args:
        source: a stranger's folder.
        target: made here.

    Returns:
        Name -> hash and size of every file that was copied but the manifest.

    Raises:
        BundleError: names what does not belong to a bundle, or is too large.
    """
    target.mkdir(mode=0o700)
    taken: dict[str, dict[str, Any]] = {}
    for name in names_in(source):
        path = target / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_regular(source, name) as file, path.open("xb") as copy:
            if os.fstat(file.fileno()).st_nlink != 1:
                raise BundleError(f"{name} is a hard link to a file elsewhere: copy the file.")
            taken[name] = _measure(file, name, copy)
        if sum(entry["bytes"] for entry in taken.values()) > MOST_BUNDLE_BYTES:
            raise BundleError(f"the bundle is larger than {MOST_BUNDLE_BYTES} bytes.")
    taken.pop(MANIFEST, None)
    return taken


def file_hashes(folder: Path) -> dict[str, dict[str, Any]]:
    """Every file of a bundle but the manifest: name -> hash and size."""
    found = {}
    for name in names_in(folder):
        if name != MANIFEST:
            with open_regular(folder, name) as file:
                found[name] = _measure(file, name)
    return found


def names_in(folder: Path) -> list[str]:
    """Names of all files of a bundle, sorted.

    Raises:
        BundleError: something else lies there.
    """
    top = [MANIFEST, RATINGS, MATCHES, TRANSCRIPTS, TOKENS]
    found = []
    for name in _entries(folder, "", len(top) + 1):
        if name == ADAPTERS:
            for adapter in _entries(folder, ADAPTERS, MOST_ENTRANTS):
                place = f"{ADAPTERS}/{adapter}"
                if not BUNDLE_NAME.fullmatch(adapter):
                    raise _no_part(place)
                found += [f"{place}/{file}" for file in _entries(folder, place, 2)]
        elif name in top:
            found.append(name)
        else:
            raise _no_part(name)
    for name in found:
        if name not in top and name.rpartition("/")[2] not in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
            raise _no_part(name)
    return sorted(found)


def open_regular(folder: Path, name: str) -> BinaryIO:
    """A regular file of a bundle, opened for reading.

    Args:
        folder: of the bundle; no link.
        name: parts apart by ``/``; no part may be a link.

    Raises:
        BundleError: there is none, or something else lies there.
    """
    *parents, last = name.split("/")
    descriptor = _open_folder(folder, parents)
    try:
        if kind := _KINDS.get(stat.S_IFMT(_lstat(last, descriptor).st_mode)):
            raise BundleError(f"{name} is {kind}, not a file.")
        opened = os.open(last, _FILE, dir_fd=descriptor)
    except OSError as error:
        raise _unreadable(name, error) from None
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(os.fstat(opened).st_mode):  # exchanged since the first look
        os.close(opened)
        raise BundleError(f"{name} is not a regular file.")
    return os.fdopen(opened, "rb")


def read_json(folder: Path, name: str) -> Line:
    """One canonical JSON object.

    Raises:
        BundleError: the file is missing, too large or something else.
    """
    most = MOST_BYTES[name]
    with open_regular(folder, name) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise _unreadable(name, error) from None
    if len(data) > most:
        raise BundleError(f"{name} is larger than {most} bytes.")
    if not data.endswith(b"\n"):
        raise BundleError(f"{name} has no end of line: the file was cut short.")
    return parse_object(data[:-1], name)


def parse_object(data: bytes, place: str) -> Line:
    """An object of canonical JSON: ASCII, keys sorted and given once, no spaces or line breaks.

    Raises:
        BundleError: it is something else; the text begins with ``place``.
    """
    try:
        value = json.loads(data.decode("ascii"))
        if isinstance(value, dict) and canonical_json(value).encode() == data:
            return value
        why = _not_canonical(data)
    except RecursionError:
        why = "it is nested too deeply"
    except ValueError as error:  # of text, numbers and JSON
        why = f"{type(error).__name__}: {str(error)[:120]}"
    raise BundleError(f"{place} is not one object in canonical JSON: {why}.")


def read_lines(folder: Path, name: str, most: int) -> Iterator[tuple[Line, bytes]]:
    """The objects of a compressed file of lines, each with its text without the line break.

    Unpacking stops at the first byte that is too many, so a small file cannot become a large one.

    Args:
        folder: of the bundle.
        name: of the file.
        most: lines.

    Raises:
        BundleError: the file is missing, cut short, too large or something else.
    """
    for number, text in enumerate(_unpacked_lines(folder, name)):
        if number >= most:
            raise BundleError(f"{name}: record {number} is one too many: there are {most} matches.")
        yield parse_object(text, f"{name}: record {number}"), text


def _unpacked_lines(folder: Path, name: str) -> Iterator[bytes]:
    """Lines without their breaks."""
    rest, number = b"", 0
    for chunk in _unpacked(folder, name):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            _check_length(line, name, number)
            yield line
            number += 1
        _check_length(rest, name, number)
    if rest:
        raise BundleError(f"{name}: record {number} has no end of line: the file was cut short.")


def _check_length(line: bytes, name: str, number: int) -> None:
    if len(line) > MOST_LINE_BYTES:
        raise BundleError(f"{name}: record {number} is longer than {MOST_LINE_BYTES} bytes.")


def _unpacked(folder: Path, name: str) -> Iterator[bytes]:
    """The content of one stream of xz, piece by piece.

    Raises:
        BundleError: the stream is damaged or too large, or something follows it.
    """
    total = 0
    with open_regular(folder, name) as file:
        unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        try:
            while not unpacking.eof:
                packed = file.read(_CHUNK) if unpacking.needs_input else b""
                if unpacking.needs_input and not packed:
                    raise BundleError(f"{name} cannot be read: it was cut short.")
                piece = unpacking.decompress(packed, _CHUNK)
                total += len(piece)
                if total > MOST_UNPACKED_BYTES:
                    raise BundleError(f"{name} unpacks to more than {MOST_UNPACKED_BYTES} bytes.")
                yield piece
            if unpacking.unused_data or file.read(1):
                raise BundleError(f"{name}: something follows the end of the compressed stream.")
        except (lzma.LZMAError, EOFError, OSError) as error:
            raise _unreadable(name, error) from None


def _not_canonical(data: bytes) -> str:
    """Why a text that is JSON is not canonical."""
    twice: list[str] = []

    def keys(pairs: list[tuple[str, Any]]) -> Line:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            twice.append(next(name for name in names if names.count(name) > 1))
        return made

    value = json.loads(data, object_pairs_hook=keys)
    if not isinstance(value, dict):
        return f"it is {shown(value)}"
    if twice:
        return f"the key {shown(twice[0])} is given twice"
    return "sort the keys, and leave out spaces and line breaks"


def _measure(file: BinaryIO, name: str, copy: BinaryIO | None = None) -> dict[str, Any]:
    """Hash and size of a file that is copied on the way.

    Raises:
        BundleError: it is larger than files of its name may be.
    """
    most, size, hashed = MOST_BYTES[name.rpartition("/")[2]], 0, hashlib.sha256()
    try:
        while size <= most and (chunk := file.read(_CHUNK)):
            size += len(chunk)
            hashed.update(chunk)
            if copy is not None:
                copy.write(chunk)
    except OSError as error:
        raise _unreadable(name, error) from None
    if size > most:
        raise BundleError(f"{name} is larger than {most} bytes.")
    return {"sha256": hashed.hexdigest(), "bytes": size}


def _entries(folder: Path, name: str, most: int) -> list[str]:
    """Names in a folder of the bundle, sorted; the folder is opened without following links."""
    descriptor = _open_folder(folder, name.split("/") if name else [])
    try:
        with os.scandir(descriptor) as listed:
            found = [entry.name for entry in islice(listed, most + 1)]
    except OSError as error:
        raise _unreadable(name or str(folder), error) from None
    finally:
        os.close(descriptor)
    if len(found) > most:
        raise BundleError(f"{name or 'the bundle'} holds more than {most} entries.")
    return sorted(found)


def _open_folder(folder: Path, parts: list[str]) -> int:
    """Descriptor of a folder below a bundle's."""
    place: Path | str = folder
    try:
        descriptor = os.open(folder, _FOLDER)
    except OSError as error:
        raise _no_folder(folder, str(folder), None, error) from None
    for place in parts:
        try:
            inner = os.open(place, _FOLDER, dir_fd=descriptor)
        except OSError as error:
            raise _no_folder(place, "/".join(parts), descriptor, error) from None
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _no_folder(path: Path | str, name: str, descriptor: int | None, error: OSError) -> BundleError:
    """Why something cannot be opened as a folder."""
    try:
        mode = os.stat(path, dir_fd=descriptor, follow_symlinks=False).st_mode
    except OSError:
        return _unreadable(name, error)
    if stat.S_ISDIR(mode):
        return _unreadable(name, error)
    return BundleError(f"{name} is {_KINDS.get(stat.S_IFMT(mode), 'a file')}, not a folder.")


def _lstat(name: str, descriptor: int) -> os.stat_result:
    return os.stat(name, dir_fd=descriptor, follow_symlinks=False)


def _unreadable(name: str, error: Exception) -> BundleError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return BundleError(f"{name} cannot be read: {type(error).__name__}: {reason}.")


def _no_part(name: str) -> BundleError:
    plain = name if name.isascii() and name.isprintable() and len(name) < 100 else shown(name)
    return BundleError(f"{plain} is not part of a bundle.")
