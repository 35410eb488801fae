"""Registrations: requests of entrants and tickets of a board, made before the seeds are drawn.

An entrant signs the digests of its agents' contents. The board answers with a number and a nonce, and
keeps the ticket as a line of its log (`leaderboards.registration.ticket_log`). A ticket's nonce and
contents decide every drawn seed (`Protocol.drawn_seed`). Reasons: docs/design/trust.md.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leaderboards.contents.intake import BundleError, open_regular
from leaderboards.keys import SIGNATURE, SigningKey, is_signed, public_key_fault
from leaderboards.protocol import Protocol
from srl_agents.records import digest
from srl_envs.errors import ConfigError, SRLError, file_fault

REQUEST_PURPOSE, TICKET_PURPOSE = "registration/1", "ticket/1"
FIRST_LINK = "0" * 64
"""What the first ticket of a board names as the one before it."""
MOST_AGENTS = 64
MOST_REQUEST_BYTES = 64 << 10
"""A request of 64 agents takes 12 KiB."""
_HEX64 = re.compile(r"[0-9a-f]{64}")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")


class TicketError(SRLError, ValueError):
    """A registration or ticket is damaged, forged, or for something else; the text names what."""


@dataclass(frozen=True, slots=True)
class Committed:
    """One agent of a registration."""

    agent_id: str
    contents: str
    """Contents of the agent, as in `AgentVersion.contents`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What an entrant announces, signed by its owner."""

    protocol: str
    """Name of the protocol."""
    protocol_sha256: str
    agents: tuple[Committed, ...]
    """Registered agents, sorted by name."""
    seeds: int
    """How many of the protocol's seeds will be played: so an entrant cannot stop where the result is best."""
    owner: str
    """Public key of the owner."""
    maker: str = ""
    """Whose names the owner claims; a board takes the claim if it lists the owner's key for this maker."""
    signature: str

    @classmethod
    def sign(
        cls,
        protocol: Protocol,
        agents: Sequence[Committed],
        owner: SigningKey,
        seeds: int | None = None,
        maker: str = "",
    ) -> Request:
        """The request of an owner.

        Args:
            protocol: that will be played.
            agents: in any order.
            owner: who signs.
            seeds: how many of the protocol's seeds; all of them by default.
            maker: whose names the owner claims; empty for names of its own.

        Raises:
            TicketError: no agents, too many, one twice, or seeds that the protocol does not have.
        """
        count = protocol.seeds if seeds is None else seeds
        if not 1 <= count <= protocol.seeds:
            raise TicketError(f"seeds={count}: {protocol.name} has 1 to {protocol.seeds}.")
        data = {
            "protocol": protocol.name,
            "protocol_sha256": protocol.sha256,
            "agents": [asdict(agent) for agent in sorted(agents, key=lambda a: a.agent_id)],
            "seeds": count,
            "owner": owner.public,
            **({"maker": maker} if maker else {}),
        }
        return cls.from_data(owner.signed(REQUEST_PURPOSE, data))

    @classmethod
    def from_data(cls, data: Any, *, vouched: bool = False) -> Request:
        """Read what an entrant sent.

        Args:
            data: JSON.
            vouched: the signature was checked before, and a hash shows that nothing has changed since.

        Raises:
            TicketError: names the first thing that is wrong, a signature included.
        """
        names = {"protocol", "protocol_sha256", "agents", "seeds", "owner", SIGNATURE}
        _require_keys(data, names, "registration", optional={"maker"})
        request = cls(
            protocol=_text(data, "protocol", _NAME),
            protocol_sha256=_text(data, "protocol_sha256", _HEX64),
            agents=_agents(data["agents"]),
            seeds=_count(data, "seeds"),
            owner=_public_key(data, "owner"),
            maker=_text(data, "maker", _MAKER) if "maker" in data else "",
            signature=str(data[SIGNATURE]),
        )
        if not vouched and not is_signed(request.owner, REQUEST_PURPOSE, data):
            raise TicketError(
                "registration: the signature is not its owner's: it was edited or cut."
            )
        return request

    @property
    def data(self) -> dict[str, Any]:
        """The request as JSON."""
        data = {**asdict(self), "agents": [asdict(agent) for agent in self.agents]}
        return data if self.maker else {key: data[key] for key in data if key != "maker"}

    @property
    def identity(self) -> str:
        """Hash of what is registered: the same request has the same one, whenever it is signed."""
        return digest({key: value for key, value in self.data.items() if key != SIGNATURE})


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticket:
    """A registration with what the board drew for it."""

    request: Request
    number: int
    """Place in the board's log, from 0."""
    nonce: str
    """64 hex digits, drawn after the request was known."""
    when: str
    """Time of the drawing, UTC."""
    board: str
    """Public key of the board at that time."""
    previous: str
    """`link` of the ticket before."""
    signature: str

    @classmethod
    def from_data(cls, data: Any, *, vouched: bool = False) -> Ticket:
        """Read a ticket; a board's log decides whether it is one of that board.

        Args:
            data: JSON.
            vouched: both signatures were checked before, and a hash shows that nothing has changed since.

        Raises:
            TicketError: names the first thing that is wrong, either signature included.
        """
        names = {"request", "number", "nonce", "when", "board", "previous", SIGNATURE}
        _require_keys(data, names, "ticket")
        ticket = cls(
            request=Request.from_data(data["request"], vouched=vouched),
            number=_count(data, "number"),
            nonce=_text(data, "nonce", _HEX64),
            when=_text(data, "when", _INSTANT),
            board=_public_key(data, "board"),
            previous=_text(data, "previous", _HEX64),
            signature=str(data[SIGNATURE]),
        )
        if not vouched and not is_signed(ticket.board, TICKET_PURPOSE, data):
            raise TicketError("ticket: the signature is not the board's: it was edited or cut.")
        return ticket

    @property
    def data(self) -> dict[str, Any]:
        """The ticket as JSON."""
        return {
            "request": self.request.data,
            "number": self.number,
            "nonce": self.nonce,
            "when": self.when,
            "board": self.board,
            "previous": self.previous,
            SIGNATURE: self.signature,
        }

    @property
    def link(self) -> str:
        """What the next ticket names as the one before it."""
        return digest(self.data)

    @property
    def draw(self) -> str:
        """What drawn seeds derive from: the nonce and all contents."""
        return digest([self.nonce, [asdict(agent) for agent in self.request.agents]])

    def fault(self, protocol: Protocol, agents: Sequence[Committed], seeds: int) -> str:
        """Why this ticket is not for these agents; empty if it is.

        Args:
            protocol: that was played.
            agents: all entrants but bots, in any order.
            seeds: how many of the protocol's seeds.
        """
        if (self.request.protocol, self.request.protocol_sha256) != (
            protocol.name,
            protocol.sha256,
        ):
            return f"the ticket is for {self.request.protocol}, not for this {protocol.name}"
        if self.request.seeds != seeds:
            return f"the ticket is for {self.request.seeds} seeds, not for {seeds}"
        registered = {agent.agent_id: agent.contents for agent in self.request.agents}
        given = {agent.agent_id: agent.contents for agent in agents}
        for name in sorted(registered.keys() | given.keys()):
            if name not in given:
                return f"agent {name} is registered and missing: a ticket's agents stay together"
            if name not in registered:
                return f"agent {name} is not registered on the ticket"
            if given[name] != registered[name]:
                return (
                    f"agent {name} is registered with contents {registered[name][:12]}, and is "
                    f"{given[name][:12]}"
                )
        return ""


def read_request(path: Path) -> Request:
    """A request from a file.

    Raises:
        TicketError: the file is missing or something else.
    """
    return Request.from_data(_read(path, "`srl leaderboard register` writes one."))


def read_ticket(path: Path) -> Ticket:
    """A ticket from a file.

    Raises:
        TicketError: the file is missing or something else.
    """
    return Ticket.from_data(_read(path, "`srl leaderboard draw` writes one."))


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a request or ticket; complete or not at all.

    Raises:
        ConfigError: the file cannot be written.
    """
    work = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work.unlink(missing_ok=True)
        with work.open("x", encoding="utf-8") as file:  # never through a link that lies there
            file.write(json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        work.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {file_fault(error, path)}.") from None


def _read(path: Path, hint: str) -> Any:
    try:
        with open_regular(path.parent.resolve(), path.name) as file:
            text = file.read(MOST_REQUEST_BYTES + 1)
        if len(text) > MOST_REQUEST_BYTES:
            raise TicketError(f"{path} is longer than {MOST_REQUEST_BYTES} bytes. {hint}")
        return json.loads(text)
    except (OSError, BundleError) as error:
        why = f"{file_fault(error, path)}." if isinstance(error, OSError) else str(error)
        raise TicketError(f"{why} {hint}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, TicketError):
            raise
        raise TicketError(f"{path} is not JSON: {error}. {hint}") from None


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./@+\-]{0,79}")
_MAKER = re.compile(r"[a-z0-9]{1,40}")


def _require_keys(
    data: Any, names: set[str], what: str, optional: Collection[str] = frozenset()
) -> None:
    if not isinstance(data, dict):
        raise TicketError(f"{what}: not a JSON object.")
    if wrong := sorted((data.keys() - set(optional)) ^ names):
        state = "missing" if wrong[0] in names else "unknown"
        raise TicketError(f"{what}: the key {wrong[0]!r} is {state}.")


def _text(data: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    value = data[key]
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise TicketError(
            f"{key} is {str(value)[:80]!r}, which is not of the form {pattern.pattern}."
        )
    return value


def _public_key(data: Mapping[str, Any], key: str) -> str:
    if fault := public_key_fault(data[key]):
        raise TicketError(f"{key} is {str(data[key])[:80]!r}, no public key: {fault}.")
    return str(data[key])


def _count(data: Mapping[str, Any], key: str) -> int:
    value = data[key]
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise TicketError(f"{key} is {str(value)[:80]!r}: expected a whole number of 0 or more.")
    return value


def _agents(data: Any) -> tuple[Committed, ...]:
    if not isinstance(data, list) or not 1 <= len(data) <= MOST_AGENTS:
        raise TicketError(f"registration: agents must be a list of 1 to {MOST_AGENTS}.")
    agents = []
    for item in data:
        _require_keys(item, {"agent_id", "contents"}, "registration: an agent")
        agents.append(Committed(_text(item, "agent_id", _NAME), _text(item, "contents", _HEX64)))
    names = [agent.agent_id for agent in agents]
    if names != sorted(set(names)):
        raise TicketError("registration: agents must be sorted by name, each once.")
    return tuple(agents)
