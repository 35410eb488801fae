"""Take a bundle apart, change anything, and put it together again with every hash in order."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from leaderboards.bundles.submission import Bundle
from leaderboards.contents.claims import ratings
from leaderboards.contents.intake import (
    MANIFEST,
    MATCHES,
    RATINGS,
    ROOT_DIGITS,
    TOKENS,
    TRANSCRIPTS,
    read_json,
    read_lines,
)
from leaderboards.contents.record import HEAD_DIGITS, MatchRecord, next_link, result_of
from srl_envs import make
from srl_envs.api.episode import play

Lines = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that stands in a file as it is: ``1e999``, or a key given twice."""

    text: str


class Stage(IntEnum):
    """When a forger changes something: what is hashed later still fits."""

    CONTENT = 0
    CHAIN = 1
    """After the chain over the records and the hash of the ratings."""
    FILES = 2
    """After the files are listed with their hashes."""
    ROOT = 3
    """After all hashes, that of the root included."""


@dataclass
class Forger:
    """A bundle taken apart: everything may be changed, then `write` or `forge` puts it together."""

    folder: Path
    manifest: dict[str, Any]
    matches: Lines
    transcripts: Lines
    tokens: Lines
    ratings: dict[str, Any]
    bundle: Bundle
    """The honest bundle."""

    @classmethod
    def of(cls, bundle: Bundle, folder: Path) -> Forger:
        """A copy of a bundle, in a folder of its own below ``folder``."""
        copy = folder / bundle.folder.name
        shutil.copytree(bundle.folder, copy)
        return cls(
            folder=copy,
            manifest=read_json(copy, MANIFEST),
            matches=_lines(bundle, copy, MATCHES),
            transcripts=_lines(bundle, copy, TRANSCRIPTS),
            tokens=_lines(bundle, copy, TOKENS),
            ratings=read_json(copy, RATINGS),
            bundle=bundle,
        )

    def write(self) -> Path:
        """Naively: files are changed, hashes are left as they were."""
        for name, lines in (
            (MATCHES, self.matches),
            (TRANSCRIPTS, self.transcripts),
            (TOKENS, self.tokens),
        ):
            if (self.folder / name).exists():
                text = b"".join(encode(line) + b"\n" for line in lines)
                (self.folder / name).write_bytes(lzma.compress(text, preset=0))
        (self.folder / RATINGS).write_bytes(encode(self.ratings) + b"\n")
        (self.folder / MANIFEST).write_bytes(encode(self.manifest) + b"\n")
        return self.folder

    def rehash(self) -> Path:
        """Forge as an attacker who has read the code: every hash fits again."""
        return self.forge(lambda _: None, Stage.CONTENT)

    def forge(self, change: Callable[[Forger], None], stage: Stage) -> Path:
        """Change something at a stage; whatever is hashed later fits."""
        if stage is Stage.CONTENT:
            change(self)
        self._chain()
        if stage is Stage.CHAIN:
            change(self)
        self.write()
        return self.seal(change, stage)

    def sign(self) -> Path:
        """Only the hashes of files and manifest fit again."""
        self.write()
        return self.seal()

    def seal(
        self, change: Callable[[Forger], None] | None = None, stage: Stage = Stage.CONTENT
    ) -> Path:
        """List the files as they lie there, and name the bundle by the hash of its manifest."""
        self.manifest["files"] = listed(self.folder)
        if change is not None and stage is Stage.FILES:
            change(self)
        unsigned = {key: value for key, value in self.manifest.items() if key != "root"}
        root = self.manifest["root"] = _sha256(unsigned)
        if change is not None and stage is Stage.ROOT:
            change(self)
        (self.folder / MANIFEST).write_bytes(encode(self.manifest) + b"\n")
        return self.folder.rename(self.folder.with_name(root[:ROOT_DIGITS]))

    def _chain(self) -> None:
        claim = self.manifest["claim"]
        claim["ratings_sha256"] = _sha256(self.ratings)
        derived = ("records", "ratings_sha256")
        link = _sha256({key: value for key, value in claim.items() if key not in derived})
        for k, match in enumerate(self.matches):
            match.pop("chain", None)
            tokens = self.tokens[k] if self.tokens else {}
            link = next_link(link, *map(encode, (match, self.transcripts[k], tokens)))
            match["chain"] = link[:HEAD_DIGITS]
        claim["records"] = {"count": len(self.matches), "chain": link}

    def recompute_ratings(self) -> None:
        """Let the rows follow from the forged matches."""
        matches = [(r.spec, r.result) for r in (self.record(k) for k in range(len(self.matches)))]
        self.ratings = ratings(self.bundle.protocol, matches)

    def record(self, k: int) -> MatchRecord:
        """Record ``k`` as it stands now."""
        match = {key: value for key, value in self.matches[k].items() if key != "chain"}
        token_line = self.tokens[k] if self.tokens else {}
        return MatchRecord.from_lines(self.bundle.specs[k], match, self.transcripts[k], token_line)

    def replay_with(
        self,
        k: int,
        change: Callable[[int, int, str], str],
        tokens: Any = None,
        **options: Any,
    ) -> None:
        """Play a match again with changed replies and believe what comes of it.

        Args:
            k: which record.
            change: (seat, turn, reply) -> the reply that is given instead.
            tokens: of the record, if they change too.
            options: of another environment than the protocol's.
        """
        record = self.record(k)
        turns = [0] * len(record.spec.seats)
        replies: dict[int, list[str]] = {seat: [] for seat in range(len(turns))}
        for step in record.transcript.steps:
            for seat, reply in step.replies.items():
                replies[seat].append(reply)

        def player(seat: int) -> Callable[[str], str]:
            def act(_text: str) -> str:
                turn = turns[seat]
                turns[seat] += 1
                said = replies[seat][turn] if turn < len(replies[seat]) else "<action>pass</action>"
                return change(seat, turn, said)

            return act

        spec = record.spec
        env: Any = make(spec.env_id, **spec.options, **options)
        episode = play(env, {s: player(s) for s in range(len(turns))}, spec.seed, split=spec.split)
        forged_tokens = record.tokens if tokens is None else tokens
        forged = MatchRecord(
            spec=spec,
            result=result_of(spec, episode, forged_tokens),
            transcript=episode,
            tokens=forged_tokens,
        )
        match, transcript, token_line = forged.lines
        self.matches[k], self.transcripts[k] = match, transcript
        if self.tokens:
            self.tokens[k] = token_line


def encode(value: Any) -> bytes:
    """JSON as `canonical_json` writes it, which holds what no honest file can: `Raw`, NaN, infinity."""
    marks: list[str] = []

    def mark(raw: Any) -> str:
        marks.append(raw.text)
        return f"raw text {len(marks) - 1}"

    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=mark)
    return re.sub('"raw text ([0-9]+)"', lambda found: marks[int(found[1])], text).encode()


def listed(folder: Path) -> dict[str, Any]:
    """Every file below a folder but the manifest, links followed: name -> hash and size."""
    return {
        str(path.relative_to(folder)): {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder) != Path(MANIFEST)
    }


def _lines(bundle: Bundle, folder: Path, name: str) -> Lines:
    if not (folder / name).exists():
        return []
    return [line for line, _ in read_lines(folder, name, len(bundle.specs))]


def _sha256(value: Any) -> str:
    return hashlib.sha256(encode(value)).hexdigest()
