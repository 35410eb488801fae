"""Protocols: the frozen rules of a board's matches, one per environment, and their schedule.

Ours lie in ``leaderboards/protocols``; an installed package brings its own by an entry point of the
group `PROTOCOL_GROUP`. ``frozen.json`` beside them holds the hash of every version that was ever
published; `python -m leaderboards.freeze` adds new ones and refuses changed ones.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import metadata
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

from srl_agents.engines.protocol import ReplySettings, StopTextSettings
from srl_agents.records import MatchSpec, digest
from srl_envs import make, spec
from srl_envs.core import Mode
from srl_envs.errors import ConfigError, nearest
from srl_envs.foreign_code import left_out, may_import
from srl_envs.reading.settings import build, dump, with_defaults

FOLDER = Path(__file__).parent / "protocols"
FROZEN = "frozen.json"
PROTOCOL_GROUP = "leaderboards.protocols"
"""Entry-point group: each entry names a package with protocols in its folder, as ours lie in `FOLDER`."""
ROOT_SEED = 0
"""Root seed of every reply sampled for a board; the match determines the rest."""
BOT = "bot:"
HELD_OUT = f"{BOT}held_out"
"""The reference that SRL never trains with; recipes refuse it as an opponent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What the environment allows; recorded so that another default is another protocol."""

    max_turns: int
    """Most moves in one episode."""
    invalid: str
    """What happens to an invalid reply; see `srl_envs.make`."""
    max_retries: int
    """Further tries after a malformed or illegal reply, per turn."""
    forfeit_after: int
    """Fallback moves after which a seat forfeits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Penalties:
    """What invalid replies cost. Rows rank by outcomes, which do not hold it; rewards do."""

    cost: float
    """Reward units per invalid reply."""
    floor: float
    """Least that the format component of one episode can be."""


@dataclass(frozen=True, kw_only=True, slots=True)
@with_defaults(temperature=field(), max_new_tokens=field(), stop=field())
class Decoding(ReplySettings, StopTextSettings):
    """Sampling settings of models, which have no defaults; an agent may use fewer tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RatingRules:
    """Parameters of the rating computation."""

    measure: str
    """``elo``: Bradley-Terry-Davidson; ``cross_play``: return with the references; ``focal_return``:
    return per seat held, as visitor and as resident."""
    ridge: float = 0.0
    """Prior precision of a skill in log-odds; for Elo."""
    confidence: float = 0.95
    """Confidence level of intervals, which are clustered by seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """Everything that decides which matches are played and what they come to."""

    name: str
    """Name of the protocol: the environment's id."""
    version: int
    """Version of the protocol; results of different versions are not compared."""
    env: str
    """Registered environment id."""
    env_options: dict[str, Any] = field(default_factory=dict)
    """Options of `srl_envs.make`."""
    mode: Mode
    """Kind of game: competitive, cooperative or mixed."""
    anchors: tuple[str, ...]
    """Bots whose mean rating is 0."""
    pool: tuple[str, ...]
    """The other references, all bots."""
    seats: int
    """Number of seats."""
    focal_seats: tuple[int, ...]
    """How many seats the first agent of a pair holds; the second holds the rest. Rows count an agent where
    it holds so many, or all seats."""
    self_play: bool
    """Whether every agent also fills a table by itself."""
    seeds: int
    """Number of start states that are played."""
    drawn_every: int = 2
    """Every seed of this step, the second of two for 2, derives from the entrant's ticket where there
    is one; the others are the public list's."""
    void_tries: int
    """Times a match is played before a failure of SRL stops the run."""
    limits: Limits
    """What a game may take."""
    penalties: Penalties
    """What bad replies cost."""
    decoding: Decoding
    """How models sample."""
    rating: RatingRules
    """How results become ratings."""

    @property
    def sha256(self) -> str:
        """Hash of the content, independent of how the file is laid out."""
        return digest(dump(self))

    @property
    def claim(self) -> dict[str, Any]:
        """What names this protocol in a bundle: name, version and hash."""
        return {"name": self.name, "version": self.version, "sha256": self.sha256}

    @property
    def references(self) -> tuple[str, ...]:
        """Agent ids of anchors and pool."""
        return tuple(BOT + name for name in (*self.anchors, *self.pool))

    @property
    def schedule_name(self) -> str:
        """`MatchSpec.schedule` of every match."""
        return f"board/{self.name}/{self.version}"

    def __post_init__(self) -> None:
        if self.drawn_every < 2:
            raise ConfigError(
                f"protocol {self.name}: drawn_every={self.drawn_every}; use 2 or more, so that some "
                "seeds are public and references meet on them."
            )

    def is_drawn(self, number: int) -> bool:
        """Whether seed ``number`` derives from the ticket, where there is one."""
        return number % self.drawn_every == self.drawn_every - 1

    def seed(self, number: int, draw: str = "") -> int:
        """Seed ``number``: the first 48 bits of a hash, over ``draw`` for those that are drawn."""
        drawn = f"{draw}/" if self.is_drawn(number) and draw else ""
        text = f"{self.name}/{self.version}/{drawn}{number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")

    def cluster(self, number: int, draw: str = "") -> str:
        """Name of the matches that share seed ``number``, and all players' random numbers with it.

        An entrant's name includes its draw on public seeds, too. Else the replies there would follow only
        from the contents, and the best of many harmless changes to them could be chosen before registering.
        """
        drawn = f"{draw}/" if draw else ""
        return f"{self.schedule_name}/{drawn}{number}"


def load_protocol(name: str, folder: Path | None = None) -> Protocol:
    """The protocol of a name; it may lack its version.

    Args:
        name: of the file. Ours are named after their environment.
        folder: look here only, and take what is not frozen yet; by default ours and those of installed
            packages, which must be frozen.

    Raises:
        ConfigError: there is none, the file is damaged, or it is not as it was frozen.
    """
    paths = _paths(folder)
    if name not in paths and "-v" not in name:
        plain = [k for k in paths if "." not in k and k.startswith(f"{name}-v")]
        name = max(plain, default=name)
    if name not in paths:
        raise ConfigError(
            f"no protocol for {name!r}.{nearest(name, paths)} There are: {', '.join(sorted(paths))}."
            f"{left_out(PROTOCOL_GROUP)}"
        )
    path = paths[name]
    protocol = _read(path, path.stat().st_mtime_ns)
    if protocol.name != name:
        raise ConfigError(
            f"{path} must name the protocol {name!r}, as its file does; it names {protocol.name!r}."
        )
    known = {} if folder else frozen_hashes(path.parent)
    if not folder and known.get(f"{name}/{protocol.version}") != protocol.sha256:
        raise ConfigError(
            f"{path} is not as version {protocol.version} of it was frozen. A new version is frozen by "
            f"`python -m leaderboards.freeze {path.parent}`."
        )
    return protocol


def protocol_names(folder: Path | None = None) -> list[str]:
    """All of them, sorted; of one folder, or ours and those of installed packages."""
    return sorted(_paths(folder))


def _paths(folder: Path | None) -> dict[str, Path]:
    """Name -> file.

    Raises:
        ConfigError: two folders have a protocol of one name.
    """
    found: dict[str, Path] = {}
    for place in [folder] if folder else _folders():
        for path in sorted(place.glob("*.json")):
            if path.name == FROZEN:
                continue
            if path.stem in found:
                raise ConfigError(
                    f"the protocol {path.stem} is there twice: {found[path.stem]} and {path}. Rename or "
                    "remove one."
                )
            found[path.stem] = path
    return found


def _folders() -> list[Path]:
    """Folders of protocols: SRL's own and those of installed packages."""
    found = [FOLDER]
    for name, value in _installed(tuple(sys.path)):
        if not may_import(value):
            continue
        try:
            package = importlib.util.find_spec(value)
            if package is None or package.submodule_search_locations is None:
                raise ModuleNotFoundError(f"the package {value} is not installed")
            found += map(Path, package.submodule_search_locations)
        except Exception as error:  # noqa: BLE001 - foreign code: one broken package must not hide the others
            warnings.warn(
                f"protocols of {name!r} ({value}) cannot be found: {type(error).__name__}: {error}",
                stacklevel=4,
            )
    return found


@cache
def _installed(_places: tuple[str, ...]) -> list[tuple[str, str]]:
    """Name and value of each entry point below these places, read once: an audit asks for every bundle."""
    return [(entry.name, entry.value) for entry in metadata.entry_points(group=PROTOCOL_GROUP)]


def frozen_hashes(folder: Path = FOLDER) -> dict[str, str]:
    """``NAME/VERSION`` -> hash of every protocol that was ever frozen."""
    path = folder / FROZEN
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def check_environment(protocol: Protocol) -> None:
    """Refuse a protocol whose words about the environment are not what is installed.

    Raises:
        ConfigError: names what differs.
    """
    env: Any = make(protocol.env, **protocol.env_options)
    try:
        found = {
            "seats": len(env.possible_agents),
            "mode": spec(protocol.env).mode,
            "max_turns": env.game.max_turns,
            **{key: getattr(env, key) for key in ("invalid", "max_retries", "forfeit_after")},
        }
    finally:
        env.close()
    wanted = {"seats": protocol.seats, "mode": protocol.mode, **dump(protocol.limits)}
    for key, value in wanted.items():
        if found[key] != value:
            raise ConfigError(
                f"protocol {protocol.name}/{protocol.version} has {key}={value!r}, this "
                f"installation has {found[key]!r}: install the SRL that the protocol was made for."
            )


def schedule(
    protocol: Protocol, entrants: Sequence[str], seeds: int, draw: str = ""
) -> list[MatchSpec]:
    """Every match, seed by seed; the references' matches do not depend on the entrants.

    Args:
        protocol: decides everything else.
        entrants: agent ids, in any order; each meets every reference, and no other entrant.
        seeds: how many of the protocol's seeds, the first ones.
        draw: `Ticket.draw` of the entrants; without one every seed is public. References do not meet
            each other on drawn seeds.

    Raises:
        ConfigError: a number of seeds that the protocol does not have.
    """
    if not 1 <= seeds <= protocol.seeds:
        raise ConfigError(f"seeds={seeds}: {protocol.name} has 1 to {protocol.seeds}.")
    references = frozenset(protocol.references)
    return [
        MatchSpec(
            env_id=protocol.env,
            options=protocol.env_options,
            seed=protocol.seed(number, draw),
            split="eval",
            seats=seats,
            cluster=protocol.cluster(number, "" if references.issuperset(seats) else draw),
            schedule=protocol.schedule_name,
            number=number,
        )
        for number in range(seeds)
        for seats in _tables(protocol, entrants, drawn=bool(draw) and protocol.is_drawn(number))
    ]


def _tables(
    protocol: Protocol, entrants: Sequence[str], *, drawn: bool
) -> Iterator[tuple[str, ...]]:
    """Seatings of the matches for one seed."""
    references, n = protocol.references, protocol.seats
    mutual = {n - held for held in protocol.focal_seats} <= {*protocol.focal_seats}
    pairs = combinations(references, 2) if mutual else permutations(references, 2)
    among_references = [] if drawn else list(pairs)
    meetings = [*among_references, *((e, r) for e in sorted(entrants) for r in references)]
    for one, other in meetings:
        for held in protocol.focal_seats:
            row = (one,) * held + (other,) * (n - held)
            yield from (row[-turn:] + row[:-turn] if turn else row for turn in range(n))
    if protocol.self_play:
        self_players = [*([] if drawn else references), *sorted(entrants)]
        yield from ((name,) * n for name in self_players)


@lru_cache(maxsize=64)
def _read(path: Path, _changed_ns: int) -> Protocol:
    try:
        return build(Protocol, json.loads(path.read_text(encoding="utf-8")), path.name)
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path} cannot be read: {error}.") from error
