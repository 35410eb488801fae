"""The value types that pass between the packages.

League -> `MatchSpec` -> rollouts -> `Episode` -> credit -> `TrainingBatch` -> trainers.
Pure data, numpy at most; everything here is immutable and serialises to JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from srl_envs.errors import ConfigError

Split = Literal["train", "eval"]
Purpose = Literal[
    "self", "past", "bot", "agent", "verify", "exploit", "eval", "gate", "payoff", "fork"
]
Termination = Literal["ok", "forfeit", "truncated", "void"]
ServedFinish = Literal["stop", "length", "refused", "empty", "other"]
FailedTry = Literal[
    "rate_limited", "server_error", "unreachable", "cut", "slow", "malformed", "empty"
]
"""Why a try for a reply of an endpoint failed. ``rate_limited``: status 429. ``server_error``: another
status that passes, such as 500. ``unreachable``: the connection was refused. ``cut``: it broke.
``slow``: the reply was not whole in time. ``malformed``: not a chat completion. ``empty``: it held no
text, and nothing had limited it."""
_VERSION = re.compile(r"(?P<learner>[^\W\d]\w*)@(?P<number>\d+)-(?P<digest>[0-9a-f]{16})")
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces, so that equal values have equal text and hash."""
    return _CANONICAL.encode(value)


def plain_json(value: Any, *, indent: int | None = None) -> str:
    """JSON that every reader takes; a number that is not finite, unknown or without a bound, is null.

    Args:
        value: of what JSON has; keys of objects are text.
        indent: spaces a level; None writes one line.
    """
    return json.dumps(_with_nulls(value), indent=indent, allow_nan=False)


def _with_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_nulls(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_nulls(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def digest(value: Any) -> str:
    """SHA-256 (hex) of `canonical_json`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


@dataclass(frozen=True, order=True, slots=True)
class WeightVersion:
    """One state of one learner's weights, for ever: no other weights have its id.

    Raises:
        ConfigError: the learner is not an identifier, the number is below 0, or the digest is not 16 hex
            digits.
    """

    learner: str
    """An identifier, such as ``alice``."""
    number: int
    """Updates since its beginning."""
    digest: str
    """First 16 hex digits of the SHA-256 of the weights and of what is shown before them."""

    def __post_init__(self) -> None:
        if not _VERSION.fullmatch(str(self)):
            raise ConfigError(
                f"version {str(self)!r}: a learner is an identifier, a number 0 or more, a digest 16 "
                "hex digits."
            )

    def __str__(self) -> str:
        """Its id in seats, folders and stores, for example ``alice@3-9f2c1a0b7d5e4c31``."""
        return f"{self.learner}@{self.number}-{self.digest}"

    @property
    def label(self) -> str:
        """Label for people, for example ``alice@3``."""
        return f"{self.learner}@{self.number}"

    @classmethod
    def parse(cls, text: str) -> WeightVersion:
        """The inverse of `str`.

        Raises:
            ConfigError: the text is not a version's id.
        """
        found = _VERSION.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"{text!r} is not a version: expected, for example, alice@3-9f2c1a0b7d5e4c31."
            )
        return cls(found["learner"], int(found["number"]), found["digest"])


def label_of(agent_id: str) -> str:
    """What people read of an agent id: a version's label, and other ids as they are."""
    found = _VERSION.fullmatch(agent_id)
    return agent_id if found is None else f"{found['learner']}@{int(found['number'])}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorHeader:
    """Name, type and shape of one tensor of an update."""

    name: str
    dtype: str
    """Number type as safetensors spells it, for example ``F32`` or ``BF16``."""
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightUpdate:
    """One learner's weights on their way from a trainer to engines."""

    version: WeightVersion
    previous: WeightVersion | None = None
    """What it was trained from; None for the first, and where it does not matter."""
    shown: tuple[tuple[str, str], ...] = ()
    """(observation, reply) pairs that the version is shown before every observation; its digest covers
    them."""
    tensors: tuple[TensorHeader, ...]
    handle: str
    """Where the transport that published it keeps the bytes, for example a folder."""
    logprobs: tuple[float, ...] = ()
    """Log-probabilities, in nats, of a fixed text under this version, in the trainer's process: engines that
    load the version elsewhere are compared with them. Empty where no engine does."""


Chances = Literal["parent", "fresh"]
"""Whose random events a branch meets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """Where a match leaves another one, its parent, and which alternative it is.

    The replies before the decision are the parent's, word for word. At the decision one seat, or all seats on
    move in that step, answer anew; from there on the policies of the spec play. What the parent replied is
    alternative 0, so K alternatives cost K - 1 branches.

    Raises:
        ConfigError: a number is not whole or too low, or ``chances`` is unknown.
    """

    parent: str
    """`MatchSpec.match_id` of the parent, which may be a branch itself."""
    decision: int
    """`Turn.turn_index` of the parent's turn that is answered anew; with ``joint``, of the first turn of its
    step."""
    joint: bool = False
    """Whether all seats on move in that step answer anew; else the others keep the parent's replies."""
    alternative: int
    """Number of the alternative, from 1; 0 is the parent."""
    chances: Chances = "parent"
    """Whether random events after the decision are those that the parent would meet, or drawn anew."""
    prefix: str
    """SHA-256 (hex) of what was replied before and is kept: `srl_agents.rollouts.branches.Prefix`."""

    def __post_init__(self) -> None:
        counted = type(self.decision) is int and type(self.alternative) is int
        if not counted or self.decision < 0 or self.alternative < 1:
            raise ConfigError(
                f"branch of {self.parent!r}: decision={self.decision!r}, alternative={self.alternative!r}: "
                "use whole numbers, a decision of 0 or more and an alternative of 1 or more; alternative 0 "
                "is the parent."
            )
        if self.chances not in get_args(Chances):
            raise ConfigError(
                f"branch of {self.parent!r}: chances={self.chances!r}: use {' or '.join(get_args(Chances))}."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchSpec:
    """One match that has to be played: a deterministic function of (league revision, match number)."""

    env_id: str
    """Registered id, for example ``connect_four-v0``."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword options of `srl_envs.make`."""
    seed: int
    """Of the episode, 0 or more."""
    split: Split
    seats: tuple[str, ...]
    """Agent id per seat: of a `WeightVersion`, for example ``alice@3-9f2c1a0b7d5e4c31``, a bot
    (``bot:middle``), a base model's name."""
    learner_seats: tuple[int, ...] = ()
    """Seats whose tokens may be trained on; empty for evaluation."""
    purpose: Purpose = "eval"
    cluster: str = ""
    """Matches of one cluster share their randomness (same start state); intervals resample clusters."""
    schedule: str = ""
    """Which schedule asked for it, for example ``train/12`` or ``eval/final``."""
    number: int = 0
    """Position in its schedule."""
    attempt: int = 0
    """Attempt within a group of matches that are otherwise equal (GRPO groups)."""
    teams: tuple[int, ...] = ()
    """Team per seat; empty where every seat plays for itself."""
    branch: Branch | None = None
    """Where it leaves another match; None for a match from its start."""

    @property
    def match_id(self) -> str:
        """Content address: equal specs have equal ids, so a repeated report is recognised."""
        parts = [
            self.env_id, self.options, self.seed, self.split, list(self.seats),
            list(self.learner_seats), self.purpose, self.cluster, self.schedule,
            self.number, self.attempt,
        ]  # fmt: skip
        if self.teams or self.branch:
            parts.append(list(self.teams))
        if self.branch:
            parts.append(asdict(self.branch))
        return digest(parts)[:32]


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchResult:
    """What a played match means for ratings. ``rewards`` include format costs, ``outcomes`` do not."""

    match_id: str
    outcomes: tuple[float, ...]
    """Outcome per seat in [-1, 1]; ratings compare these."""
    rewards: tuple[float, ...]
    termination: Termination
    forfeited: tuple[int, ...] = ()
    """Seats that forfeited."""
    invalid_replies: tuple[int, ...] = ()
    """Number of malformed or illegal replies per seat."""
    turns: int = 0
    """Number of replies asked for, all seats."""
    tokens: tuple[int, ...] = ()
    """Tokens written per seat (0 for scripted policies); in a branch without those of its parent."""
    trajectory_sha256: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What an endpoint reported of one reply. It cannot be verified."""

    finish: ServedFinish
    """``stop``: it ended by itself or at a stop text. ``length``: the limit cut it, or the prompt left
    no room. ``refused``: the model or the provider's filter declined. ``empty``: no text, in several
    tries, and no reason. ``other``: anything else."""
    prompt_tokens: int | None = None
    """None where the endpoint does not report it; likewise the next three."""
    completion_tokens: int | None = None
    """Thoughts are part of it."""
    reasoning_tokens: int | None = None
    """Completion tokens that were thoughts."""
    cached_tokens: int | None = None
    """Prompt tokens that the endpoint had already cached."""
    cost: float | None = None
    """In the currency of the price file; None where the price or the tokens are unknown."""
    model: str = ""
    """As the reply names it, as a rule with a date; empty where it names none."""
    fingerprint: str = ""
    """Fingerprint of the system behind the model, as the reply gives it."""
    failed_tries: tuple[FailedTry, ...] = ()
    """Failed tries before this reply came, in order."""
    seconds: float | None = field(default=None, compare=False)
    """From the first try to the answer, with pauses between tries and without a wait for rate limits before
    it; None where it was not measured. No part of the reply."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One reply of one seat. Token ids are those that were sampled; text is never re-tokenised."""

    turn_index: int
    """Index of the request within the episode, counting all seats."""
    observation: str
    reply: str
    invalid: str | None
    """None, ``malformed`` or ``illegal``."""
    reward: float
    """Reward that the step paid to this seat."""
    components: dict[str, float]
    """Parts of ``reward`` by name, in reward units."""
    version: str = ""
    """Id of the `WeightVersion` that wrote the reply; empty where it has none."""
    prompt_ids: tuple[int, ...] = ()
    """Tokens that the policy read; empty where it has none."""
    completion_ids: tuple[int, ...] = ()
    """Tokens that were sampled, thoughts and the token that ends the reply included."""
    logprobs: tuple[float, ...] = ()
    """Log-probability of each completion token under the policy that sampled it."""
    finish: Literal["stop", "length", "scripted", "served"] = "scripted"
    """``served``: by an endpoint, which reports no tokens; `served` has what it reports."""
    served: Served | None = None
    thoughts: str = ""
    """Text that was written before the reply and is not part of it."""
    thought_tokens: int = 0
    """How many of the first completion tokens are thoughts, with the marker that ends them."""
    forced_tokens: int = 0
    """How many of the last thought tokens the engine wrote, because the budget was used up."""
    masked: bool = False
    """Whether nothing is learned from it, though what it earned counts in baselines."""
    step: int = -1
    """Joint step that it belongs to, from 0; -1 in records of older versions."""
    inherited: bool = False
    """Whether it was written in the parent of the branch that holds it; what was sampled once is counted and
    learned once."""
    references: dict[str, Any] = field(default_factory=dict)
    """What decided whether the move was right, for the rewards of a recipe that ask for it; no prompt holds
    it. Empty where no reward asked or the move answered no question."""
    answer: str | None = None
    """With references, the move as a plain reply; None where the game accepted none."""

    def learned(self, *, thoughts: bool) -> tuple[bool, ...]:
        """Which completion tokens are the policy's own choice.

        Args:
            thoughts: whether those of thoughts count.
        """
        own = self.thought_tokens - self.forced_tokens
        reply = len(self.completion_ids) - self.thought_tokens
        return (thoughts,) * own + (False,) * self.forced_tokens + (True,) * reply


@dataclass(frozen=True, kw_only=True, slots=True)
class Trajectory:
    """Everything one seat did in one episode."""

    seat: int
    policy: str
    """Id of the agent in the seat."""
    turns: tuple[Turn, ...]
    outcome: float
    """Of the game, in [-1, 1]; 0 where the episode was truncated."""
    total_reward: float
    """Outcome and costs of format, in reward units."""
    components: dict[str, float]
    """Sums over the episode: ``outcome``, ``format``, and the game's own statistics."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """One play-through of a `MatchSpec`."""

    spec: MatchSpec
    trajectories: tuple[Trajectory, ...]
    """One per seat, in seat order."""
    termination: Termination
    forfeited: tuple[int, ...] = ()
    """Seats that forfeited, from 0."""
    fault: str = ""
    """Type and message of the infrastructure error when ``termination`` is ``void``."""
    transcript_sha256: str = ""
    reshuffles: tuple[tuple[int, int], ...] = ()
    """(joint steps before it, number) of each time at which chance was drawn anew."""

    @property
    def valid(self) -> bool:
        """False where our side failed; such an episode moves no baseline and no rating."""
        return self.termination != "void"

    def result(self) -> MatchResult:
        """The part of the episode that the league stores."""
        return MatchResult(
            match_id=self.spec.match_id,
            outcomes=tuple(t.outcome for t in self.trajectories),
            rewards=tuple(t.total_reward for t in self.trajectories),
            termination=self.termination,
            forfeited=self.forfeited,
            invalid_replies=tuple(
                sum(turn.invalid is not None for turn in t.turns) for t in self.trajectories
            ),
            turns=sum(len(t.turns) for t in self.trajectories),
            tokens=tuple(
                sum(len(turn.completion_ids) for turn in t.turns if not turn.inherited)
                for t in self.trajectories
            ),
            trajectory_sha256=self.transcript_sha256,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Extent:
    """Numbers of rows and tokens in a batch, for means over it."""

    rows: int
    tokens: float
    """Completion tokens that are learned."""


def cut_evenly(sizes_N: NDArray[np.integer[Any]], parts: int) -> NDArray[np.intp]:
    """(N,) which part each of N things belongs to, in order and with sums as equal as that allows.

    Args:
        sizes_N: above 0.
        parts: how many; some are empty where there are fewer things.
    """
    middles_N = np.cumsum(sizes_N) - sizes_N / 2
    owners_N: NDArray[np.intp] = (middles_N * parts / sizes_N.sum()).astype(np.intp)
    return owners_N


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingBatch:
    """Rows for one learner's update, one row per turn that the learner's policy wrote.

    ``P`` longest prompt, ``T`` longest completion, ``R`` rows. Prompts are padded on the left,
    completions on the right.
    """

    learner: str
    versions: tuple[WeightVersion, ...]
    """R; what wrote each row."""
    prompt_ids_RP: NDArray[np.int64]
    """Tokens of each prompt, padded on the left."""
    prompt_mask_RP: NDArray[np.bool_]
    """False where a prompt is padded."""
    completion_ids_RT: NDArray[np.int64]
    """Tokens of each reply, padded on the right."""
    completion_mask_RT: NDArray[np.bool_]
    """False where a reply is padded."""
    learned_RT: NDArray[np.bool_]
    """Which completion tokens are learned; the others are only read."""
    logprobs_RT: NDArray[np.float32]
    """Sampling log-probabilities, 0 where nothing is learned."""
    advantages_RT: NDArray[np.float32]
    """0 where nothing is learned."""
    whole: Extent | None = None
    """Extent of the batch that these rows are a share of; None for a whole batch."""
    seats_R: NDArray[np.int64] | None = None
    """Seat in which each row was written; None where that is unknown."""
    games_R: NDArray[np.str_] | None = None
    """Name of the game of each row; None where all are of one, or that is unknown."""

    @property
    def rows(self) -> int:
        """R."""
        return len(self.prompt_ids_RP)

    def by_seat(self) -> dict[tuple[str, int], Self]:
        """(game, seat) -> the share of the rows that were written there; empty where seats are unknown.

        The game is empty where all rows are of one. The gradients of all shares add up to that of the whole.
        """
        seats_R, games_R = self.seats_R, self.games_R
        if seats_R is None:
            return {}
        names_R = np.full(self.rows, "") if games_R is None else games_R
        places = sorted({*zip(names_R.tolist(), seats_R.tolist(), strict=True)})
        return {
            (game, seat): replace(
                self.take(np.flatnonzero((names_R == game) & (seats_R == seat))), whole=self.extent
            )
            for game, seat in places
        }

    @property
    def extent(self) -> Extent:
        """Extent of the whole batch, over which the loss is a mean, also for a share."""
        return self.whole or Extent(rows=self.rows, tokens=float(self.learned_RT.sum()))

    def share(self, part: int, parts: int) -> Self | None:
        """The rows of one of several processes; None where there are too few for all.

        Rows that begin alike stay together as far as shares of like length allow. The gradients of all
        shares add up to that of the whole.

        Args:
            part: which share, from 0.
            parts: how many there are.
        """
        lengths_R = self.prompt_mask_RP.sum(axis=1) + self.completion_mask_RT.sum(axis=1)
        order_R = np.lexsort(self.prompt_ids_RP.T[::-1])
        rows_r = np.sort(order_R[cut_evenly(lengths_R[order_R], parts) == part])
        return replace(self.take(rows_r), whole=self.extent) if len(rows_r) else None

    def take(self, rows_r: NDArray[np.intp]) -> Self:
        """The batch of the rows ``rows_r``, (r,) numbers in [0, R), as wide as it was."""
        arrays = {
            f.name: getattr(self, f.name)[rows_r]
            for f in fields(self)
            if isinstance(getattr(self, f.name), np.ndarray)
        }
        versions = tuple(self.versions[row] for row in rows_r)
        return replace(self, versions=versions, **arrays)


@dataclass(frozen=True, kw_only=True, slots=True)
class CriticBatch(TrainingBatch):
    """Rows whose advantages come from a critic, with what the critic is to learn from them."""

    values_RT: NDArray[np.float32]
    """What the critic said before each token when the rows were judged; 0 where masked."""
    returns_RT: NDArray[np.float32]
    """Targets of the critic's values; 0 where masked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignTurn:
    """One reply that another learner wrote, as its reader reads and would write it."""

    author: WeightVersion
    prompt_ids: tuple[int, ...]
    """Prompt of the same state in the reader's tokens."""
    completion_ids: tuple[int, ...]
    """Reply in the reader's tokens, without the token that ends it; only that token where it is empty."""
    author_logprob: float
    """Mean log-probability per token under the author when it was sampled, over the author's own tokens
    without the one that ends the reply."""
    advantage: float
    """Advantage for the reader, in reward units."""
    coefficient: float
    """Author's capability over the reader's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExchangedBatch(TrainingBatch):
    """Rows of a learner, and behind them rows that others wrote, which are weighed before every step."""

    foreign_R: NDArray[np.bool_]
    """True for rows of others."""
    author_logprobs_R: NDArray[np.float64]
    """`ForeignTurn.author_logprob`; 0 in own rows."""
    coefficients_R: NDArray[np.float64]
    """`ForeignTurn.coefficient`; 1 in own rows."""
