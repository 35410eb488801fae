"""One forged bundle per file and kind of fault: other files, links and compressed streams."""

from __future__ import annotations

import lzma
import os
import shutil
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from leaderboards.contents.intake import ADAPTERS, MANIFEST, MATCHES, RATINGS, TOKENS, TRANSCRIPTS
from leaderboards.redteam.field_forgeries import Forgery
from leaderboards.redteam.forger import Forger

BOMB_BYTES = 256 << 20
"""What the compressed bombs unpack to; a few kilobytes of file."""
_BLOCK_HEADER = 12
"""Where the first block of a stream of xz begins."""

Change = Callable[[Path], None]
"""Change of a file's bytes."""


def file_forgeries(forger: Forger) -> Iterator[Forgery]:
    """All of them for a bundle like this one, which is only looked at."""
    for name in (MANIFEST, RATINGS, MATCHES, TRANSCRIPTS, TOKENS):
        if (forger.folder / name).exists():
            changes = {**_ANY, **(_PACKED if name.endswith(".xz") else _PLAIN)}
            for label, change in changes.items():
                yield Forgery(f"{name}: {label}", _changing(name, change))
    for label, make in _FOLDERS.items():
        yield Forgery(f"the folder: {label}", make)


def _changing(name: str, change: Change) -> Callable[[Forger], Path]:
    def make(forger: Forger) -> Path:
        change(forger.folder / name)
        return forger.folder if name == MANIFEST else forger.seal()

    return make


# --- any file --------------------------------------------------------------------------------


def _outside(path: Path) -> Path:
    """The same file, moved to where no bundle is."""
    target = path.parent.parent / f"outside-{path.name}"
    shutil.move(path, target)
    return target


def _relinked(path: Path) -> None:
    path.symlink_to(_outside(path))


def _hard_linked(path: Path) -> None:
    path.hardlink_to(_outside(path))


def _linked_to(target: str) -> Change:
    def change(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return change


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _socket(path: Path) -> None:
    path.unlink()
    here = os.open(path.parent, os.O_RDONLY)  # names of sockets are short, paths of tests are not
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _edited(edit: Callable[[bytes], bytes]) -> Change:
    def change(path: Path) -> None:
        path.write_bytes(edit(path.read_bytes()))

    return change


_ANY: dict[str, Change] = {
    "missing": Path.unlink,
    "a link to another file": _relinked,
    "a link to nowhere": _linked_to("nowhere"),
    "a link to a device": _linked_to("/dev/zero"),
    "a hard link to another file": _hard_linked,
    "a named pipe": _pipe,
    "a socket": _socket,
    "a folder": _folder,
    "empty": _edited(lambda _: b""),
    "cut in half": _edited(lambda data: data[: len(data) // 2]),
    "without its last byte": _edited(lambda data: data[:-1]),
    "something behind it": _edited(lambda data: data + b"PK\x03\x04"),
    "a zero byte behind it": _edited(lambda data: data + b"\0\0\0\0"),
}

# --- JSON ------------------------------------------------------------------------------------

_PLAIN: dict[str, Change] = {
    "a byte-order mark": _edited(lambda data: b"\xef\xbb\xbf" + data),
    "two bytes per character": _edited(lambda data: data.decode().encode("utf-16")),
    "line breaks of two characters": _edited(lambda data: data.replace(b"\n", b"\r\n")),
    "a space": _edited(lambda data: data.replace(b":", b": ", 1)),
    "two objects": _edited(lambda data: data + data),
    "nested lists": _edited(lambda _: b"[" * 100_000 + b"]" * 100_000 + b"\n"),
    "nested objects": _edited(lambda _: b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n"),
    "nesting that just parses": _edited(lambda _: b'{"a":' * 200 + b"1" + b"}" * 200 + b"\n"),
    "one long line": _edited(lambda _: b'{"a":"' + b"x" * (9 << 20) + b'"}\n'),
}

# --- compressed lines ------------------------------------------------------------------------


def _lines(edit: Callable[[bytes], bytes]) -> Change:
    """The stream with its lines edited."""
    return _edited(lambda data: lzma.compress(edit(lzma.decompress(data)), preset=0))


def _of_size(line: bytes) -> Callable[[bytes], bytes]:
    return lambda _: line * (BOMB_BYTES // len(line))


def _claiming_memory(data: bytes) -> bytes:
    """The stream claims that unpacking it takes 4 GiB."""
    size = 4 * (data[_BLOCK_HEADER] + 1)
    header = bytearray(data[_BLOCK_HEADER : _BLOCK_HEADER + size])
    header[header.index(b"\x21\x01") + 2] = 40
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    return data[:_BLOCK_HEADER] + bytes(header) + data[_BLOCK_HEADER + size :]


_PACKED: dict[str, Change] = {
    "two streams": _edited(lambda data: data + data),
    "an empty stream behind it": _edited(lambda data: data + lzma.compress(b"")),
    "two halves as two streams": _edited(
        lambda data: b"".join(
            lzma.compress(part, preset=0)
            for part in (lzma.decompress(data)[:500], lzma.decompress(data)[500:])
        )
    ),
    "the older format": _edited(
        lambda data: lzma.compress(lzma.decompress(data), format=lzma.FORMAT_ALONE)
    ),
    "not compressed": _edited(lzma.decompress),
    "a stream that asks for 4 GiB": _edited(_claiming_memory),
    "a bomb of one line": _lines(_of_size(b"x" * 1024)),
    "a bomb of zero bytes": _lines(_of_size(b"\0" * 1024)),
    "a bomb of empty lines": _lines(_of_size(b"\n")),
    "a bomb of empty objects": _lines(_of_size(b"{}\n")),
    "a bomb behind honest lines": _lines(lambda text: text + b"{}\n" * (BOMB_BYTES // 3)),
    "one line of lists": _lines(lambda text: b'{"a":[' + b"[]," * (2 << 20) + b"[]]}\n" + text),
    "nested lists": _lines(lambda text: b"[" * 100_000 + b"]" * 100_000 + b"\n" + text),
    "a byte-order mark": _lines(lambda text: b"\xef\xbb\xbf" + text),
    "line breaks of two characters": _lines(lambda text: text.replace(b"\n", b"\r\n")),
    "no last line break": _lines(lambda text: text[:-1]),
    "an empty line behind it": _lines(lambda text: text + b"\n"),
    "no lines": _lines(lambda _: b""),
}

# --- the folder ------------------------------------------------------------------------------


def _linked_folder(forger: Forger) -> Path:
    target = forger.folder.rename(forger.folder.with_name("elsewhere"))
    forger.folder.symlink_to(target)
    return forger.folder


def _linked_adapters(forger: Forger) -> Path:
    """The audit's way to a private key: a folder of the bundle is a link to a folder of the reader."""
    secret = forger.folder.with_name("secret")
    (secret / "0123456789abcdef").mkdir(parents=True)
    (secret / "0123456789abcdef" / "adapter_config.json").write_text("a private key\n")
    shutil.rmtree(forger.folder / ADAPTERS, ignore_errors=True)
    (forger.folder / ADAPTERS).symlink_to(secret)
    return forger.seal()


def _linked_adapter(forger: Forger) -> Path:
    secret = forger.folder.with_name("secret")
    secret.mkdir()
    (secret / "adapter_config.json").write_text("a private key\n")
    (forger.folder / ADAPTERS).mkdir(exist_ok=True)
    (forger.folder / ADAPTERS / "0123456789abcdef").symlink_to(secret)
    return forger.seal()


def _with(name: str, text: str = "trust me\n") -> Callable[[Forger], Path]:
    def make(forger: Forger) -> Path:
        path = forger.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return forger.seal()

    return make


def _crowded(forger: Forger) -> Path:
    (forger.folder / ADAPTERS).mkdir(exist_ok=True)
    for number in range(2000):
        (forger.folder / ADAPTERS / f"{number:016x}").mkdir()
    return forger.seal()


def _renamed(forger: Forger) -> Path:
    return forger.folder.rename(forger.folder.with_name("0123456789abcdef"))


_FOLDERS: dict[str, Callable[[Forger], Path]] = {
    "a link to the bundle": _linked_folder,
    "its adapters are a link": _linked_adapters,
    "one adapter is a link": _linked_adapter,
    "2000 adapters": _crowded,
    "another name": _renamed,
    "a file more": _with("notes.txt"),
    "a hidden file": _with(".git"),
    "a page": _with("index.html", "<script>alert(1)</script>"),
    "a name of control characters": _with("\x1b[2J\n"),
    "a long name": _with("x" * 250),
    "an adapter without an agent": _with(
        f"{ADAPTERS}/0123456789abcdef/adapter_config.json", "{}\n"
    ),
    "a file beside the adapters": _with(f"{ADAPTERS}/hook.py", "print('hello')\n"),
    "a folder below the adapters": _with(f"{ADAPTERS}/../{ADAPTERS}/x/adapter_config.json"),
    "code beside an adapter": _with(f"{ADAPTERS}/0123456789abcdef/modeling.py", "print(1)\n"),
    "tokens where no model plays": _with(TOKENS, "{}\n"),
}
