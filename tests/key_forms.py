"""What a server may make of a key, and a search for what is left of it, as simple as can be."""

from __future__ import annotations

import base64
import codecs
import html
import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from srl_envs.redaction import RUN

Form = Callable[[str], str]
CHANGED: dict[str, Form] = {
    "as it is": str,
    "reversed": lambda key: key[::-1],
    "upper": str.upper,
    "lower": str.lower,
    "swapped": str.swapcase,
}
ENCODED: dict[str, Form] = {
    "as it is": str,
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 of the header": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "base64 of user and key": lambda key: base64.b64encode(f":{key}".encode()).decode(),
    "base64 for a URL": lambda key: base64.urlsafe_b64encode(f"a{key}b".encode()).decode(),
    "base64 in lines": lambda key: base64.encodebytes((key * 3).encode()).decode(),
    "base64 in lower case": lambda key: base64.b64encode(key.encode()).decode().lower(),
    "base64 reversed": lambda key: base64.b64encode(key.encode()).decode()[::-1],
    "hexadecimal": lambda key: key.encode().hex(),
}


def from_json(text: str) -> str:
    return str(json.loads(f'"{text}"'))


ESCAPED: dict[str, tuple[Form, Form]] = {
    "as it is": (str, str),
    "quoted": (lambda key: quote(key, safe=""), unquote),
    "quoted twice": (lambda key: quote(quote(key, safe="")), lambda text: unquote(unquote(text))),
    "every character quoted": (
        lambda key: "".join(f"%{ord(letter):02x}" for letter in key),
        unquote,
    ),
    "all quoted twice": (
        lambda key: "".join(f"%25{ord(letter):02X}" for letter in key),
        lambda text: unquote(unquote(text)),
    ),
    "in JSON": (lambda key: json.dumps(key)[1:-1], from_json),
    "in JSON twice": (
        lambda key: json.dumps(json.dumps(key)[1:-1])[1:-1],
        lambda text: from_json(from_json(text)),
    ),
    "code points in JSON": (
        lambda key: "".join(f"\\u{ord(letter):04x}" for letter in key),
        from_json,
    ),
    "bytes in Python": (
        lambda key: "".join(f"\\x{ord(letter):02x}" for letter in key),
        lambda text: codecs.decode(text, "unicode_escape"),
    ),
    "octal": (
        lambda key: "".join(f"\\{ord(letter):03o}" for letter in key),
        lambda text: codecs.decode(text, "unicode_escape"),
    ),
    "in HTML": (html.escape, html.unescape),
    "numbers in HTML": (
        lambda key: "".join(f"&#{ord(letter)};" for letter in key),
        html.unescape,
    ),
    "in Markdown": (
        lambda key: key.replace("_", "\\_").replace("~", "\\~"),
        lambda text: text.replace("\\", ""),
    ),
}
"""How, and how to read it again."""


def runs(text: str, length: int) -> set[str]:
    return {text[at : at + length] for at in range(len(text) - length + 1)}


def left_of(key: str, text: str) -> str:
    """A part of the key in a text, by a program that is as simple as can be; empty for none."""
    shown = text.lower()
    for way in (key.lower(), key.lower()[::-1]):
        for run in runs(way, RUN):
            if run in shown:
                return run
    return ""


def forms(key: str) -> Iterator[tuple[str, bool, bool]]:
    """(form, whether it is escaped, whether it begins with other text) of all combinations."""
    for change in CHANGED.values():
        for name, encode in ENCODED.items():
            for escape, (escaped, _) in ESCAPED.items():
                yield escaped(encode(change(key))), escape != "as it is", " of " in name


class KeySearch:
    """Looks for any form of a key in bytes.

    Base64 and escapes of it keep letters at both ends that depend on what is beside the key.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._coded: dict[int, set[str]] = {13: set(), 26: set()}
        for form, escaped, preceded in forms(key):
            if not (escaped and preceded):
                self._coded[26 if escaped else 13] |= runs(form.lower(), 26 if escaped else 13)

    def left_in(self, data: bytes) -> str:
        """A part of a form; empty for none."""
        shown = data.decode("latin-1").lower()
        for length, coded in self._coded.items():
            if left := next((run for run in runs(shown, length) if run in coded), ""):
                return left
        return left_of(self._key, shown)

    def left_below(self, folder: Path) -> dict[str, str]:
        """Files in a folder that show a form, also compressed ones."""
        found = {}
        for path in filter(Path.is_file, folder.rglob("*")):
            data = path.read_bytes()
            data = lzma.decompress(data) if path.suffix == ".xz" else data
            if left := self.left_in(path.name.encode() + data):
                found[str(path)] = left
        return found
