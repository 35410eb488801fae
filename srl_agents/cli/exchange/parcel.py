"""What `srl push` may send and `srl pull` may take: files by a list of names, without keys, with hashes.

``srl.json`` lists the files of a repository with size and SHA-256. It marks a repository as SRL's, so that no
other is overwritten, and shows after a download whether everything arrived.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import srl_envs
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

MARK = "srl.json"
"""File of a repository with its list of files."""
CARD = "README.md"
SCHEMA = 1
Kind = Literal["run", "board"]
Content = Path | bytes
"""A file on disk, or one that is made for the repository."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_WEIGHTS = r"model(-\d{5}-of-\d{5})?\.safetensors"
_LEARNER = (
    r"README\.md|recipe\.yaml|prompt\.json|adapter_config\.json|adapter_model\.safetensors"
    rf"|{_WEIGHTS}|model\.safetensors\.index\.json|(generation_)?config\.json|tokenizer(_config)?\.json"
    r"|special_tokens_map\.json|added_tokens\.json|chat_template\.jinja|vocab\.json|merges\.txt"
)
_BUNDLE = (
    r"(manifest|ratings)\.json|(matches|transcripts|tokens)\.jsonl\.xz"
    r"|adapters/[0-9a-f]{16}/adapter_(config\.json|model\.safetensors)"
)
_BOARD = (
    r"(board|bases|registrations\.head)\.json|(changelog|registrations)\.jsonl"
    rf"|(?!exploits/)[\w.\-]+/[0-9a-f]{{16}}(\.verified\.json|/({_BUNDLE}))"
    r"|exploits/[\w.\-]+/[0-9a-f]{16}\.json"
)
SENT: Mapping[Kind, re.Pattern[str]] = {
    "run": re.compile(
        rf"README\.md|(recipe\.yaml|results\.json|metrics\.jsonl)|(adapters|models)/\w+(-best)?/({_LEARNER})",
        re.ASCII,
    ),
    "board": re.compile(
        r"README\.md|index\.html|data\.json|preview\.png|assets/[\w.\-]+|(boards|agents|episodes)/[\w.@+\-]+\.js"
        rf"|board/({_BOARD})",
        re.ASCII,
    ),
}
"""Names that are sent, by kind; all others stay where they are."""
TAKEN: Mapping[Kind, re.Pattern[str]] = {
    "run": SENT["run"],
    "board": re.compile(rf"board/({_BOARD})", re.ASCII),
}
"""Names that are taken: of a board what can be verified, and not its site, whose scripts anyone may have
written; `srl leaderboard build` makes the site again."""
_TEXT = (".json", ".jsonl", ".yaml", ".md", ".js", ".html", ".css", ".txt", ".jinja")
_KEYS = {
    "a key of the hub": re.compile(r"\bhf_[A-Za-z0-9]{20,}"),
    "a key of a provider": re.compile(r"\b(sk-[\w\-]{20,}|gh[pousr]_\w{20,}|AKIA[0-9A-Z]{16}\b)"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an address with a password": re.compile(r"://[^/\s:@\"']+:[^/\s@\"']+@"),
}
_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD)$")
_LEAST_KEY = 8
"""Characters; a shorter value of such a variable is a placeholder, which any text may hold."""
_HOME = re.compile(r"/(?:home|root|Users)/[^\s'\"]*")
_MOST_MARK_BYTES = 16 << 20
_MOST_FILES = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Parcel:
    """A repository's content before it is sent."""

    kind: Kind
    files: Mapping[str, Content]
    """Name in the repository -> content."""
    notes: tuple[str, ...] = ()
    """What its owner should read before it goes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A file as ``srl.json`` has it."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """Content of ``srl.json``."""

    kind: Kind
    files: Mapping[str, Listed]


def below(root: Path, names: Collection[str]) -> dict[str, Content]:
    """Files of a folder by name.

    Raises:
        ConfigError: one is a link, or in a folder that is one: it could lead anywhere.
    """
    found: dict[str, Content] = {}
    for name in sorted(names):
        path = root
        for part in name.split("/"):
            path /= part
            if path.is_symlink():
                raise ConfigError(
                    f"{path} is a symbolic link, which is not sent: replace it by a copy."
                )
        found[name] = path
    return found


def packed(parcel: Parcel, key: str | None = None) -> dict[str, Content]:
    """All files of a parcel with ``srl.json``, after every check.

    Args:
        parcel: to send.
        key: of the hub, which no text may hold, as no value of an environment variable for keys.

    Raises:
        ConfigError: a name may not travel, a file is gone, or a text holds a key.
    """
    for name, content in parcel.files.items():
        if not SENT[parcel.kind].fullmatch(name):
            raise ConfigError(f"{name} is not a file that a {parcel.kind} is shared with.")
        if name.endswith(_TEXT):
            _require_no_key(name, _text(content), key)
    listed = {
        name: {"bytes": size_of(content), "sha256": _sha256(content)}
        for name, content in sorted(parcel.files.items())
    }
    mark = {
        "schema": SCHEMA,
        "kind": parcel.kind,
        "srl": srl_envs.__version__,
        "files": listed,
    }
    return {**parcel.files, MARK: (plain_json(mark, indent=1) + "\n").encode()}


def private_paths(files: Mapping[str, Content]) -> list[str]:
    """Lines about texts that name a folder of some home directory."""
    found = []
    for name, content in files.items():
        match = _HOME.search(_text(content)) if name.endswith((".yaml", ".json", ".md")) else None
        if match is not None:
            found.append(f"{name} names {match[0]}")
    return found


def read_mark(text: bytes, repository: str) -> Listing:
    """Read ``srl.json`` of a repository, which anyone may have written.

    Raises:
        ConfigError: it is damaged, too new, or lists what is never sent.
    """
    damaged = f"{repository}: its {MARK} is not what `srl push` writes"
    try:
        if len(text) > _MOST_MARK_BYTES:
            raise ConfigError(f"{damaged}: it has more than {_MOST_MARK_BYTES >> 20} MiB.")
        mark = json.loads(text)
        schema, kind = mark["schema"], mark["kind"]
        if schema != SCHEMA:
            raise ConfigError(
                f"{repository} has format {str(schema)[:20]}, and this SRL reads {SCHEMA}: update SRL."
            )
        if kind not in SENT:
            raise ConfigError(f"{damaged}: kind {str(kind)[:40]!r}.")
        files = {str(name): _listed(entry) for name, entry in mark["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{damaged}: {type(error).__name__}.") from None
    wrong = next((name for name in files if not SENT[kind].fullmatch(name)), None)
    if wrong is not None or len(files) > _MOST_FILES:
        named = f"it lists {wrong[:80]!r}" if wrong is not None else f"it lists {len(files)} files"
        raise ConfigError(f"{damaged}: {named}.")
    return Listing(kind=kind, files=files)


def require_whole(folder: Path, files: Mapping[str, Listed], repository: str) -> None:
    """Compare a download with its list.

    Raises:
        ConfigError: a file is missing, or has another content.
    """
    for name, entry in files.items():
        path = folder / name
        if not path.is_file() or path.is_symlink():
            raise ConfigError(f"{repository}: {name} did not arrive. Pull it again.")
        if size_of(path) != entry.bytes or _sha256(path) != entry.sha256:
            raise ConfigError(
                f"{repository}: {name} is not the file that {MARK} lists: it was changed after "
                "`srl push`. Ask its owner to push again."
            )


def size_of(content: Content) -> int:
    """Bytes.

    Raises:
        OSError: the file is gone.
    """
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _listed(entry: Any) -> Listed:
    size, sha256 = entry["bytes"], entry["sha256"]
    if not isinstance(size, int) or size < 0 or not _DIGEST.fullmatch(str(sha256)):
        raise ValueError(size)
    return Listed(bytes=size, sha256=sha256)


def _require_no_key(name: str, text: str, key: str | None) -> None:
    for value in (*([key] if key else []), *_own_keys()):
        if value in text:
            line = text[: text.index(value)].count("\n") + 1
            raise ConfigError(
                f"{name}, line {line}: holds the value of a key in this environment. Nothing was sent: "
                "remove it there, and replace the key if others have read the file."
            )
    for what, pattern in _KEYS.items():
        if (found := pattern.search(text)) is not None:
            line = text[: found.start()].count("\n") + 1
            raise ConfigError(
                f"{name}, line {line}: holds what looks like {what}. Nothing was sent: remove it there."
            )


def _own_keys() -> Iterator[str]:
    for name, value in os.environ.items():
        if _VARIABLE.search(name.upper()) and len(value) >= _LEAST_KEY:
            yield value


def _text(content: Content) -> str:
    data = content if isinstance(content, bytes) else content.read_bytes()
    return data.decode("utf-8", errors="replace")


def _sha256(content: Content) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
