"""Bundles small enough to make in a test, and what a forger does to them."""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboards import bundle as bundles
from leaderboards.agents import build_agents, committed, parse_entrants
from leaderboards.bundle import Bundle, file_hashes, first_link, write_bundle
from leaderboards.charter import register
from leaderboards.claims import ratings
from leaderboards.keys import owner_key
from leaderboards.protocol import load_protocol
from leaderboards.record import HEAD_DIGITS, MatchRecord, next_link, result_of
from leaderboards.registration import Request, Ticket
from leaderboards.run import BoardRun, opened
from srl_agents.records import canonical_json, digest
from srl_envs import make
from srl_envs.episode import play

Lines = list[dict[str, Any]]


def make_bundle(
    folder: Path,
    env: str,
    agents: tuple[str, ...] = (),
    tokens: int | None = None,
    prompts: tuple[str, ...] = (),
    ticket: Ticket | None = None,
    **options: Any,
) -> Bundle:
    """One seed of a protocol, two with a ticket, played and bundled."""
    protocol = load_protocol(env)
    run = BoardRun(
        protocol,
        parse_entrants(agents, protocol, prompts),
        folder / "run",
        seeds=2 if ticket else 1,
        max_new_tokens=tokens,
        ticket=ticket,
    )
    with opened(run):
        run.play()
    return write_bundle(folder / "run", folder / "bundles", **options)


def registered(board: Path, env: str, agents: tuple[str, ...], tokens: int | None = None) -> Ticket:
    """The board's ticket for these agents, which the owner of this test's key registers."""
    protocol = load_protocol(env)
    most = tokens or protocol.decoding.max_new_tokens
    built = build_agents(protocol, parse_entrants(agents, protocol), most)
    return register(board, Request.sign(protocol, committed(built.versions), owner_key()))


@dataclass
class Open:
    """A bundle taken apart: everything may be changed, then `write` puts it together."""

    folder: Path
    manifest: dict[str, Any]
    matches: Lines
    transcripts: Lines
    tokens: Lines
    ratings: dict[str, Any]
    bundle: Bundle

    @classmethod
    def of(cls, bundle: Bundle, folder: Path) -> Open:
        copy = folder / bundle.folder.name
        shutil.copytree(bundle.folder, copy)
        columns = [
            list(bundles.read_lines(copy / name)) if (copy / name).exists() else []
            for name in (bundles.MATCHES, bundles.TRANSCRIPTS, bundles.TOKENS)
        ]
        manifest = bundles.read_json(copy / bundles.MANIFEST)
        return cls(copy, manifest, *columns, bundles.read_json(copy / bundles.RATINGS), bundle)

    def write(self) -> Path:
        """Naively: files are changed, hashes are left as they were."""
        for name, lines in (
            (bundles.MATCHES, self.matches),
            (bundles.TRANSCRIPTS, self.transcripts),
            (bundles.TOKENS, self.tokens),
        ):
            if (self.folder / name).exists():
                text = "".join(canonical_json(line) + "\n" for line in lines)
                (self.folder / name).write_bytes(lzma.compress(text.encode(), preset=9))
        self._json(bundles.RATINGS, self.ratings)
        self._json(bundles.MANIFEST, self.manifest)
        return self.folder

    def rehash(self) -> Path:
        """As somebody who has read the code: every hash fits again."""
        claim = self.manifest["claim"]
        claim["ratings_sha256"] = digest(self.ratings)
        link = first_link(claim)
        for k, match in enumerate(self.matches):
            match.pop("chain", None)
            token_line = self.tokens[k] if self.tokens else {}
            link = next_link(link, match, self.transcripts[k], token_line)
            match["chain"] = link[:HEAD_DIGITS]
        claim["records"] = {"count": len(self.matches), "chain": link}
        return self.sign()

    def sign(self) -> Path:
        """Only the hashes of files and manifest fit again."""
        self.write()
        self.manifest["files"] = file_hashes(self.folder)
        self.manifest["root"] = digest({k: v for k, v in self.manifest.items() if k != "root"})
        self._json(bundles.MANIFEST, self.manifest)
        return self.folder.rename(self.folder.with_name(self.manifest["root"][:16]))

    def recompute_ratings(self) -> None:
        """Let the rows follow from the forged matches."""
        matches = [(r.spec, r.result) for r in (self.record(k) for k in range(len(self.matches)))]
        self.ratings = ratings(self.bundle.protocol, matches)

    def record(self, k: int) -> MatchRecord:
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
        told = play(env, {s: player(s) for s in range(len(turns))}, spec.seed, split=spec.split)
        told_tokens = record.tokens if tokens is None else tokens
        forged = MatchRecord(
            spec=spec,
            result=result_of(spec, told, told_tokens),
            transcript=told,
            tokens=told_tokens,
        )
        match, transcript, token_line = forged.lines
        self.matches[k], self.transcripts[k] = match, transcript
        if self.tokens:
            self.tokens[k] = token_line

    def _json(self, name: str, data: dict[str, Any]) -> None:
        (self.folder / name).write_text(canonical_json(data) + "\n")
