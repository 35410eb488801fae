"""What vLLM proves before it plays: its models, one token, and log-probabilities of a fixed text.

A server that serves another base, adapter, tokenizer or number type than the trainer has would answer every
request and be trained on. It is compared before the first match, after each restart, and with every version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.vllm.answers import BASE, require_base
from srl_agents.engines.vllm.link import AdaptersLostError, VLLMLink
from srl_agents.engines.waiting import EVERY_S, Say, Waiting
from srl_agents.models.probe import Probe, distance
from srl_envs.errors import DeadlineError, ModelError

_ABSENT_S = 5.0
"""Longest wait for a server never reached; one that has played may take `Handshake.limit_s` to come back."""
_LOOK_S = 0.2
"""Seconds between two tries to reach the server."""
_STOP_TOKENS = 12
"""Tokens that are written to see where a stop text ends them."""
_CLEARLY = 4.0
"""Times the base's own distance by which two versions must differ to be distinguished."""
_LEAST = 2e-4
"""Nats per token that count as such a distance where the base agrees to fewer."""


class Handshake:
    """Compares one vLLM with what the trainer holds.

    Args:
        link: to it.
        probe: the fixed text and its log-probabilities under the trained base.
        decode: of the trainer's tokenizer.
        limit_s: for its first token, which may need a compilation, and to come back after its end.
        say: shows a line while it is waited for.
        every_s: between two such lines.
    """

    def __init__(
        self,
        link: VLLMLink,
        probe: Probe,
        decode: Callable[[tuple[int, ...]], str],
        *,
        limit_s: float,
        say: Say,
        every_s: float = EVERY_S,
    ) -> None:
        self._link, self._probe, self._decode = link, probe, decode
        self._limit_s, self._say, self._every_s = limit_s, say, every_s
        self._met = False
        self._noise = 0.0
        """Distance of the base in nats per token; versions must differ clearly more than that."""

    @property
    def base_logprobs(self) -> tuple[float, ...]:
        """Log-probabilities of the fixed text under the trained base."""
        return self._probe.logprobs

    async def greet(self) -> None:
        """Require that it serves the trained base.

        Raises:
            DeadlineError: it gave no token in time.
            ModelError: it does not answer, is not a vLLM of a supported kind, or serves another model.
        """
        place = self._link.place
        names = await self.served()
        require_base(place, names)
        wait = self._wait("its first token")
        async with wait.said():
            await self._ask(BASE, self._probe.tokens[:1], 1, wait.limit_s)
        if wait.passed_s >= self._every_s:
            self._say(f"{place} took {wait.passed_s:.0f} s for its first token")
        found = await self.score(BASE)
        self._noise = distance(found, self._probe.logprobs)
        if not self._noise <= self._probe.bound:
            raise ModelError(
                f"{place} serves another model than the one that is trained: log-probabilities of a fixed "
                f"text differ by {self._noise:.3g} nats per token, and rounding explains at most "
                f"{self._probe.bound:g}. Serve the recipe's base, or set engine.logprob_bound if its number "
                "type differs on purpose."
            )
        await self._compare_stops()
        self._met = True

    async def served(self) -> set[str]:
        """Names of its models, once it answers.

        Where nothing accepts connections the wait is short before the first match; a server that accepts
        them and is silent may be loading its model.

        Raises:
            DeadlineError: it does not, in time.
            ModelError: it answers with something else, or cannot be started again.
        """
        wait = self._wait("its answer")
        absent_s = wait.limit_s if self._met else min(wait.limit_s, _ABSENT_S)
        async with wait.said():
            while True:
                try:
                    found = await self._link.revived(max(wait.left_s, _LOOK_S))
                except TimeoutError:
                    raise DeadlineError(
                        f"{self._link.place} accepts connections and listed no models within "
                        f"{wait.limit_s:g} s. See what it does in its log, or raise engine.start_timeout_s."
                    ) from None
                if found is not None:
                    return found
                if wait.passed_s >= absent_s:
                    raise DeadlineError(
                        f"{self._link.place} does not answer: tried for {absent_s:g} s. Start the "
                        "server, or correct engine.url."
                    )
                await asyncio.sleep(_LOOK_S)

    async def score(self, name: str) -> tuple[float, ...]:
        """Log-probabilities of the fixed text under one of its models.

        Raises:
            AdaptersLostError: see there.
            DeadlineError: it gave none in time.
            ModelError: it gives none.
        """
        wait = self._wait(f"log-probabilities of {name}")
        async with wait.said():
            try:
                return await self._link.score(name, self._probe.tokens, wait.limit_s)
            except TimeoutError:
                raise self._late(wait.limit_s) from None

    async def require(
        self,
        label: str,
        name: str,
        expected: Sequence[float],
        others: Mapping[str, Sequence[float]],
    ) -> None:
        """Require that a loaded adapter is the trainer's version.

        Args:
            label: of the version, for messages.
            name: of the adapter there.
            expected: log-probabilities of the fixed text under it, by the trainer.
            others: likewise, of the other versions that are loaded, by label.

        Raises:
            AdaptersLostError: see there.
            ModelError: it is another one.
        """
        found = await self.score(name)
        own = distance(found, expected)
        if not own <= self._probe.bound:
            raise ModelError(
                f"{self._link.place} plays something else than {label}: log-probabilities of a fixed text "
                f"differ by {own:.3g} nats per token from the trainer's, and rounding explains at most "
                f"{self._probe.bound:g}. Start the server again."
            )
        apart = _CLEARLY * max(self._noise, _LEAST)
        for other, logprobs in {"the base": self._probe.logprobs, **others}.items():
            if distance(expected, logprobs) > apart and distance(found, logprobs) < own:
                raise ModelError(
                    f"{self._link.place} plays {other} under the name of {label}: log-probabilities of a "
                    f"fixed text are {distance(found, logprobs):.3g} nats per token from those of {other} "
                    f"and {own:.3g} from its own. Start the server again."
                )

    async def _compare_stops(self) -> None:
        """A stop text has to end a reply where the trainer's tokenizer reads it."""
        free = await self._ask(BASE, self._probe.tokens, _STOP_TOKENS, self._limit_s)
        words = [self._decode((token,)).strip() for token in free]
        stop = next((word for word in words if word.isascii() and word.isalnum()), "")
        if not stop:
            return
        ended = await self._ask(BASE, self._probe.tokens, _STOP_TOKENS, self._limit_s, stop)
        if stop in self._decode(ended[:-1]):
            raise ModelError(
                f"{self._link.place} has another tokenizer than the model that is trained: a reply went on "
                f"behind the stop text {stop!r}. Serve the recipe's base with its own tokenizer."
            )

    async def _ask(
        self, name: str, tokens: tuple[int, ...], most: int, limit_s: float, stop: str = ""
    ) -> tuple[int, ...]:
        sampling = SamplingSettings(
            temperature=0.0, max_new_tokens=most, stop=(stop,) if stop else ()
        )
        try:
            piece = await self._link.sample(name, tokens, sampling, 0, limit_s, priority=0)
        except TimeoutError:
            raise self._late(limit_s) from None
        if piece is None:
            raise AdaptersLostError(f"{self._link.place} cut a reply off.")
        return piece.token_ids

    def _wait(self, what: str) -> Waiting:
        who = f"{self._link.place}, {what}"
        return Waiting(who, self._limit_s, self._say, self._every_s)

    def _late(self, limit_s: float) -> DeadlineError:
        return DeadlineError(
            f"{self._link.place} lists its models and gave no reply within {limit_s:g} s. See what it does "
            "in its log, or raise engine.start_timeout_s."
        )
