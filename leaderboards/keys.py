"""Ed25519 keys of boards and owners: their files, what they sign, and the check of a signature.

A signature covers a purpose and a value in canonical JSON, so that one made for a ticket is none for a
verification. Sources: RFC 8032, by the `cryptography` package; which public keys are refused, "Taming the
Many EdDSAs", SSR 2020.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_agents.records import canonical_json
from srl_envs.errors import SRLError, file_fault

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEYS = "SRL_KEYS"
"""Environment variable that names the folder of private keys."""
OWNER = "owner"
SIGNATURE = "signature"
PUBLIC = re.compile(r"ed25519:[0-9a-f]{64}")
_HEX_SIGNATURE = re.compile(r"[0-9a-f]{128}")
_FINGERPRINT_DIGITS = 16
_PRIME = 2**255 - 19
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset({0, 1, _PRIME - 1, _ORDER_8, _PRIME - _ORDER_8})
"""The y coordinates of the 8 points whose order divides 8; x differs only in its sign."""


class KeyFileError(SRLError, RuntimeError):
    """A private key is missing, unreadable, or lies where others could read it."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key; only `public` may be shown."""

    public: str
    """``ed25519:`` and 64 hex digits."""
    _private: Ed25519PrivateKey = field(repr=False)

    def signed(self, purpose: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """The data with its signature, replacing one that it has."""
        content = {key: value for key, value in data.items() if key != SIGNATURE}
        return content | {SIGNATURE: self._private.sign(_message(purpose, content)).hex()}


def is_signed(public: str, purpose: str, data: Mapping[str, Any]) -> bool:
    """Whether ``data`` holds a signature by this key for this purpose; False for any malformed value."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - only where keys are used
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PublicKey,
    )

    signature = data.get(SIGNATURE)
    if public_key_fault(public):
        return False
    if not isinstance(signature, str) or not _HEX_SIGNATURE.fullmatch(signature):
        return False
    content = {key: value for key, value in data.items() if key != SIGNATURE}
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public.partition(":")[2]))
        key.verify(bytes.fromhex(signature), _message(purpose, content))
    except (InvalidSignature, ValueError):
        return False
    return True


def public_key_fault(public: object) -> str:
    """Why this public key cannot identify a person; empty if it can.

    A point of small order verifies one signature for many texts. A coordinate past the prime is a second
    spelling of a key, and so a second fingerprint.
    """
    if not isinstance(public, str) or not PUBLIC.fullmatch(public):
        return "not ed25519: and 64 hexadecimal digits"
    coordinate = int.from_bytes(bytes.fromhex(public.partition(":")[2]), "little") % (1 << 255)
    if coordinate >= _PRIME:
        return "a second spelling of a point: its coordinate is not below the prime"
    if coordinate in _SMALL_ORDER:
        return "a point of small order, whose signatures anyone can make"
    return ""


def fingerprint(public: str) -> str:
    """16 hex digits by which people compare a public key."""
    return hashlib.sha256(public.encode()).hexdigest()[:_FINGERPRINT_DIGITS]


def keys_folder() -> Path:
    """Where private keys lie: ``$SRL_KEYS``, or ``srl/keys`` in the user's configuration folder."""
    named = os.environ.get(KEYS)
    if named:
        return Path(named).expanduser()
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "srl" / "keys"


def owner_key() -> SigningKey:
    """The key of this account, which registers agents; made on first use.

    Raises:
        KeyFileError: it cannot be read or written, or others can read or replace it.
    """
    path = _place(f"{OWNER}.pem")
    return _load(path) if path.exists() else _store(path, _generate())


def new_board_key(board: Path) -> SigningKey:
    """A new key for a board, kept under the name of its fingerprint.

    Raises:
        KeyFileError: it cannot be written, or the folder of keys lies in the board or in a repository.
    """
    key = _generate()
    return _store(_place(f"board-{fingerprint(key.public)}.pem", board), key)


def board_key(public: str, board: Path) -> SigningKey:
    """The private half of a board's key.

    Raises:
        KeyFileError: it is not on this machine.
    """
    path = _place(f"board-{fingerprint(public)}.pem", board)
    if not path.exists():
        raise KeyFileError(
            f"the key of {board}, fingerprint {fingerprint(public)}, is not in {path.parent}. Copy "
            f"{path.name} there, point {KEYS} at its folder, or sign with a new key: `srl leaderboard "
            "rekey`."
        )
    key = _load(path)
    if key.public != public:
        raise KeyFileError(f"{path} holds another key than {public}: put the right one there.")
    return key


def _message(purpose: str, content: Mapping[str, Any]) -> bytes:
    return f"srl {purpose}\n{canonical_json(content)}".encode()


def _generate() -> SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    return _key(Ed25519PrivateKey.generate())


def _key(private: Ed25519PrivateKey) -> SigningKey:
    return SigningKey(f"ed25519:{private.public_key().public_bytes_raw().hex()}", private)


def _place(name: str, board: Path | None = None) -> Path:
    """Where a key belongs.

    Raises:
        KeyFileError: the folder lies under the board or in a repository, or others can write to it.
    """
    folder = keys_folder().resolve()
    _require_private(folder)
    parents = [folder, *folder.parents]
    if board is not None and board.resolve() in parents:
        raise KeyFileError(
            f"{folder} lies in the board {board}, which is published: set {KEYS} to a folder of yours."
        )
    for parent in parents:
        if (parent / ".git").exists():
            raise KeyFileError(
                f"{folder} lies in the repository {parent}: a key must not be committed. Set {KEYS} to "
                "a folder outside."
            )
    return folder / name


def _require_private(folder: Path) -> None:
    """Refuse a folder where other users could replace our key.

    Further up, a folder for everybody is fine where only owners may rename (the sticky bit, as ``/tmp``
    has it), and so is one that is open to a group: many systems give each user one.
    """
    for place in (folder, *folder.parents):
        try:
            mode = place.stat().st_mode
        except FileNotFoundError:  # made later, and then private
            continue
        except OSError as error:
            raise KeyFileError(f"{place} cannot be read ({error.strerror}).") from None
        everybody = mode & stat.S_IWOTH and not mode & stat.S_ISVTX
        if everybody or (place == folder and mode & (stat.S_IWGRP | stat.S_IWOTH)):
            raise KeyFileError(
                f"{place} can be written by others, who could replace a key: `chmod go-w {place}`, or set "
                f"{KEYS} to a folder of yours."
            )


def _store(path: Path, key: SigningKey) -> SigningKey:
    """Write a new key; if another process was first, its key counts."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    text = key._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    work = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(work, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(text)
            os.fsync(file.fileno())
        try:
            os.link(work, path)
        except FileExistsError:
            return _load(path)
        finally:
            work.unlink()
    except OSError as error:
        raise KeyFileError(
            f"cannot write {file_fault(error, path)}. Set {KEYS} to a folder that can be written."
        ) from None
    return key


def _load(path: Path) -> SigningKey:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        load_pem_private_key,
    )

    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise KeyFileError(f"{path} can be read by others: `chmod 600 {path}`.")
        private = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{path} is not a private key: {error}") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise KeyFileError(f"{path} is not an Ed25519 key.")
    return _key(private)
