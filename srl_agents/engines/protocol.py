"""What samples replies, seen from outside: one asynchronous protocol for every engine.

An engine answers requests that name an immutable version. Which requests share a batch, a card or a
machine is its own affair; the caller sees only `Generation`. The author of an engine runs
`srl_agents.testing.check_engine` on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from srl_agents.caching.objectives import Objectives
from srl_agents.models.prompt import EarlierTurn, Example
from srl_agents.records import Served, WeightUpdate, WeightVersion
from srl_envs.errors import ConfigError

Finish = Literal["stop", "length", "served"]


@dataclass(frozen=True, kw_only=True)
class ReplySettings:
    """How long replies are, and how random. Without slots, so that other settings may derive from it."""

    max_new_tokens: int = 64
    """Tokens per reply at most, beside its thoughts."""
    temperature: float = 1.0
    """Logits are divided by it; the trainer of the same base uses the same. 0 is greedy, with
    log-probabilities at temperature 1; learners need more than 0."""


@dataclass(frozen=True, kw_only=True)
class OrderSettings:
    """In which order matches advance. Without slots, as `ReplySettings`."""

    order: Literal["exact", "free"] = "exact"
    """``exact``: matches advance in lockstep, and replies are the same each time, bit for bit. ``free``: no
    match waits for the slowest, such as an endpoint, which is faster; repeatable in seeds and schedule, not
    in rounding."""


@dataclass(frozen=True, kw_only=True)
class ConcurrencySettings:
    """How much is asked of a server at once. Without slots, as `ReplySettings`."""

    concurrency: int = 16
    """Requests to one model behind an endpoint at once; the others wait. At vLLM 256 unless given."""


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """Times that an engine holds. Without slots, as `ReplySettings`."""

    objectives: Objectives = field(default_factory=Objectives)
    """Times to hold; a run without any waits for nothing but room. The embedded engine plans its steps by
    them, not in order ``exact``, whose steps do not depend on a clock. For vLLM, a conductor before servers
    keeps requests waiting by what it learned of whole replies."""


@dataclass(frozen=True, kw_only=True)
class FilterSettings(ReplySettings):
    """Which tokens may be sampled. The trainer's probabilities stay those of all tokens: ``sampler_kl`` shows
    the difference."""

    top_k: int = 0
    """Only so many of the most probable tokens; 0 keeps all."""
    top_p: float = 1.0
    """Only the most probable tokens that together have this probability. Source: arXiv:1904.09751."""
    min_p: float = 0.0
    """Only tokens of at least this share of the largest probability. Source: arXiv:2407.01082."""


@dataclass(frozen=True, kw_only=True)
class StopTextSettings:
    """Where replies end. Without slots, as `ReplySettings`."""

    stop: tuple[str, ...] = ("</action>",)
    """Texts that end a reply; they stay in it, also where a server drops them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingSettings(FilterSettings, StopTextSettings):
    """How replies are sampled. The trainer of the same base must use the same temperature.

    The filters apply in the order top-k, top-p, min-p, to the probabilities at the temperature, as in
    transformers and vLLM; what is left is divided by its sum.
    """

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(f"temperature={self.temperature}: use 0 (greedy) or more.")
        if self.top_k < 0:
            raise ConfigError(f"top_k={self.top_k}: use 0 (all tokens) or more.")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p={self.top_p}: use more than 0, at most 1 (all tokens).")
        if not 0 <= self.min_p <= 1:
            raise ConfigError(f"min_p={self.min_p}: use 0 (all tokens) to 1.")
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens={self.max_new_tokens}: use 1 or more.")
        if not isinstance(self.stop, tuple) or not all(self.stop):
            raise ConfigError(f"stop={self.stop!r}: use a tuple of texts, none of them empty.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What an engine can do. A recipe that needs more is refused before anything is loaded."""

    token_ids: bool
    """It returns the tokens of prompt and reply: needed to train on what it wrote."""
    logprobs: bool
    """It returns the log-probability of each token under the distribution that it was drawn from."""
    seeded: bool
    """Equal requests with equal keys draw equal random numbers."""
    versions: bool
    """The engine takes `install`; otherwise it plays the weights that it was started with."""
    context_length: int | None
    """Longest prompt and reply together, in tokens; None where it does not tell."""
    thoughts: bool = False
    """The engine writes thoughts under their own budget where its prompt has them."""
    memory: bool = False
    """The engine shows a seat's earlier turns where its prompt has a memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationRequest:
    """One reply to sample."""

    observation: str
    """The last user message of the chat; the engine's prompt and ``examples`` stand before it."""
    examples: tuple[Example, ...] = ()
    """Examples that are shown behind those of the engine's own prompt."""
    earlier: tuple[EarlierTurn, ...] = ()
    """The seat's turns until now, oldest first; shown where the engine's prompt has a memory, and as far as
    it reaches."""
    version: WeightVersion | None
    """Version that writes the reply; None is the model as it was loaded."""
    key: tuple[int, ...]
    """Match, seat and turn of the reply. Equal keys get equal random numbers."""
    sampling: SamplingSettings | None = None
    """Sampling of this reply; None: the engine's own."""
    priority: float = 0.0
    """Lower ones go first where several engines share the work; matches near their end are low."""
    turns_ahead: int | None = None
    """About how many others move before this seat asks again; None where that is unknown."""
    deadline_s: float | None = None
    """Seconds from `generate` on until it raises `DeadlineError`; None: the engine's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """One sampled reply, with its tokens where the engine has them."""

    text: str
    """The reply, without thoughts and template tokens. Empty where the prompt left no room in the model's
    context, and where the model ended in its thoughts."""
    version: WeightVersion | None
    """Version that wrote it: the request's, whatever was installed meanwhile."""
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    """Thoughts first. Includes the end token where there is one."""
    logprobs: tuple[float, ...] = ()
    """Log-probability of each token as it was drawn; 0 for tokens that the engine wrote itself."""
    finish: Finish
    """``served``: by an endpoint; `served` has what it reported."""
    served: Served | None = None
    thoughts: str = ""
    """Text that was written before the reply, without the markers."""
    thought_tokens: int = 0
    """Number of first tokens that are thoughts, with the marker that ends them."""
    forced_tokens: int = 0
    """Number of last thought tokens that the engine wrote itself, because the budget was used up."""
    cached_tokens: int = 0
    """Tokens of the prompt whose keys and values were there already."""


@runtime_checkable
class Engine(Protocol):
    """Samples replies of named versions. All methods may be called from one event loop only."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; constant."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample one reply. Cancelling the task gives its place in the batch to others.

        Raises:
            DeadlineError: no reply within the request's deadline.
            ModelError: the weights are broken, or the engine is closed or has died.
            UnknownVersionError: the version is not installed.
        """

    async def install(self, update: WeightUpdate) -> None:
        """Make a version playable, wholly or not at all; requests in flight keep theirs.

        Installing a version again does nothing.

        Raises:
            ModelError: the tensors do not fit, or are not those that the update names.
        """

    async def retire(self, version: WeightVersion) -> None:
        """Forget a version. Requests in flight are still answered; later ones are refused."""

    async def sleep(self) -> None:
        """Give memory back until `wake`; requests wait."""

    async def wake(self) -> None:
        """The inverse of `sleep`."""

    async def close(self) -> None:
        """Refuse what waits, and give everything back. Closing again does nothing."""


@runtime_checkable
class HalvingEngine(Engine, Protocol):
    """An engine in whose process memory may run out, and which then works on less at once."""

    async def halve_rows(self) -> tuple[int, int] | None:
        """Write at most half as many replies at once from now on, and give memory back.

        Returns:
            How many it wrote at once, and how many it does now; None where it was one.
        """


@runtime_checkable
class RepeatableEngine(Engine, Protocol):
    """An engine whose batches can depend only on the requests, as the order ``exact`` needs."""

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Replies in the order of the requests; equal sequences get bit-equal replies."""


@runtime_checkable
class MatchEngine(Protocol):
    """An engine that keeps what a seat has read until its match ends."""

    async def match_over(self, match: tuple[int, ...]) -> None:
        """No request whose key begins so will come again."""
