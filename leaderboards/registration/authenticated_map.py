"""A map on disk, authenticated by one hash: a look-up reads five small nodes and checks each of them.

A hash tree of fixed depth over the SHA-256 of the keys, in SQLite. The file is derived data: a damaged or
edited one is detected by the caller's hash, and built again. Source of the idea: R. Merkle, "A Digital
Signature Based on a Conventional Encryption Function", CRYPTO 1987.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from srl_agents.records import canonical_json
from srl_envs.errors import SRLError

EMPTY = ""
"""Hash of a map that holds nothing."""
_DEPTH = 4
"""Hex digits of a key's hash that choose its leaf: 65,536 leaves."""


class DamagedMapError(SRLError, RuntimeError):
    """The file is missing, unreadable, or holds something else than the hash names."""


class AuthenticatedMap(contextlib.AbstractContextManager["AuthenticatedMap"]):
    """Keys and JSON values that add up to a hash.

    Args:
        path: of the file; made if absent.
        root: hash of the content, as `commit` returned it.

    Raises:
        DamagedMapError: the file cannot be opened.
    """

    def __init__(self, path: Path, root: str) -> None:
        self._root = root
        self._nodes: dict[str, dict[str, Any]] = {}
        self._changed: set[str] = set()
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise DamagedMapError(f"{path} is not a regular file.")
        try:
            self._file = sqlite3.connect(path, isolation_level=None)
            self._file.execute("PRAGMA trusted_schema=OFF")
            self._file.execute("PRAGMA synchronous=OFF")  # a torn file is detected and built again
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS nodes (path TEXT PRIMARY KEY, content TEXT) WITHOUT ROWID"
            )
            self._node("")
        except sqlite3.Error as error:
            raise DamagedMapError(f"{path} cannot be opened: {error}") from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def get(self, key: str) -> Any:
        """The value of a key, or None.

        Raises:
            DamagedMapError: what lies on the key's path is not what the hash names.
        """
        return self._node(_path(key)).get(key)

    def put(self, key: str, value: Any) -> None:
        """Set the value of a key; raises as `get`."""
        path = _path(key)
        self._node(path)[key] = value
        self._changed |= {path[:length] for length in range(_DEPTH + 1)}

    def commit(self) -> str:
        """Write all changes at once; the hash of the whole content.

        Raises:
            DamagedMapError: the file cannot be written.
        """
        rows = []
        for path in sorted(self._changed, key=len, reverse=True):
            text = canonical_json(self._node(path))
            rows.append((path, text))
            if path:
                self._node(path[:-1])[path[-1]] = _hash(text)
            else:
                self._root = _hash(text)
        try:
            self._file.execute("BEGIN")
            self._file.executemany("INSERT OR REPLACE INTO nodes VALUES (?, ?)", rows)
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            raise DamagedMapError(f"the index cannot be written: {error}") from None
        self._changed.clear()
        return self._root

    def _node(self, path: str) -> dict[str, Any]:
        """Children of a node by hex digit, or the pairs of a leaf, held against the hash that names it."""
        if path not in self._nodes:
            wanted = self._node(path[:-1]).get(path[-1], EMPTY) if path else self._root
            self._nodes[path] = self._read(path, wanted) if wanted else {}
        return self._nodes[path]

    def _read(self, path: str, wanted: str) -> dict[str, Any]:
        try:
            row = self._file.execute("SELECT content FROM nodes WHERE path = ?", (path,)).fetchone()
        except sqlite3.Error as error:
            raise DamagedMapError(f"the index cannot be read: {error}") from None
        if row is None or not isinstance(row[0], str) or _hash(row[0]) != wanted:
            raise DamagedMapError("the index does not have the hash that names it.")
        return dict(json.loads(row[0]))


def _path(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:_DEPTH]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
