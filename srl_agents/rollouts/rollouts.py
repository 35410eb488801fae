"""Play many matches at once, in one of two orders, and keep every token that was sampled.

What a reply is asked for depends only on the match, the seat and the turn, never on which matches
happen to run beside it. (What an endpoint's replies depend on is not known.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Self, get_args

from srl_agents.agents.players import ModelPolicy, Policy
from srl_agents.caching.simulation.traces import Request
from srl_agents.engines.protocol import HalvingEngine
from srl_agents.interrupts import EventLoop
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts.asking import Asking, PromptTokens
from srl_agents.rollouts.exact import play_exact
from srl_agents.rollouts.free import play_free
from srl_agents.rollouts.match import match_key
from srl_agents.rollouts.match_queue import Finished, IdleEnvs, MatchQueue, Progress
from srl_agents.rollouts.request_trace import RequestTrace
from srl_agents.rollouts.steps import StepPool, default_threads
from srl_envs.errors import ConfigError, MemoryLimitError, ReplyRoomError

Order = Literal["exact", "free"]
"""``exact``: in lockstep, bit for bit repeatable. ``free``: one coroutine per match, faster."""


class Rollouts:
    """Plays matches between named policies. Close it, or use it as a context manager.

    Args:
        policies: policy version id -> policy; looked up when a match starts, so versions may be
            added and dropped between calls of `play`.
        root_seed: of the run; part of every sampled token's random number.
        order: see `Order`.
        concurrency: matches that are live at once.
        contents: policy version id -> digest of its contents, for those whose random numbers shall
            belong to what they are; the others' belong to their ids.
        loop: runs the event loop that the engines belong to; one of its own if absent. Code that
            installs versions on the same engines uses the same one.
        references: whether turns of learning seats keep what decides whether they are right, for judges
            that need it; see `Turn.references`.
        step_threads: environments that step at once; a few more than there are cores if absent.
        step_deadline_s: seconds for one step of a match, which is void if it takes longer.
        reply_deadline_s: seconds for one reply, above what the engine allows itself; then all ends.
        trace: keeps every request, and writes them when a call of `play` ends.
        relieve: called with one line when memory ran out. Matches that were interrupted are then played again
            from their beginnings, with half as many live and half the rows of each engine in this
            process, until the rollouts end. None raises what ran out.

    Raises:
        ConfigError: a value is impossible.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        *,
        root_seed: int,
        order: Order = "exact",
        concurrency: int = 128,
        contents: Mapping[str, str] | None = None,
        loop: EventLoop | None = None,
        references: bool = False,
        step_threads: int | None = None,
        step_deadline_s: float = 600.0,
        reply_deadline_s: float = 3600.0,
        trace: RequestTrace | None = None,
        relieve: Callable[[str], None] | None = None,
    ) -> None:
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}: use 1 or more.")
        if order not in get_args(Order):
            raise ConfigError(f"order={order!r}: use 'exact' or 'free'.")
        self.policies = policies
        self.root_seed = root_seed
        self.order = order
        self.concurrency = concurrency
        self.contents = contents or {}
        self.references = references
        self._loop = EventLoop() if loop is None else loop
        self._own_loop = loop is None
        self._steps = StepPool(
            default_threads() if step_threads is None else step_threads, step_deadline_s
        )
        self._trace = trace
        self._asking = Asking(reply_deadline_s, trace)
        self._envs = IdleEnvs()
        self._relieve = relieve

    def play(
        self,
        specs: Sequence[MatchSpec],
        progress: Progress | None = None,
        finished: Finished | None = None,
        parents: Mapping[str, Episode] | None = None,
    ) -> list[Episode]:
        """Play all matches.

        Args:
            specs: in any number; equal specs are played once each.
            progress: called with the number of matches that have just ended.
            finished: called with each match as it ends, for callers that must not lose it; what it was
                called with stays finished, whatever becomes of the others.
            parents: match id -> episode, of the matches that branches among the specs leave.

        Returns:
            One episode per spec, in their order. Where our own machinery failed, or a bot raised, the
            episode is ``void`` with the cause; no seat is charged.

        Raises:
            ConfigError: a spec names a policy that was not given, has a wrong number of seats, or
                trains on an engine that reports no tokens; or a branch has another parent than is given.
            ModelError: an engine is closed or has died; matches that are live are lost.
            DeadlineError: an engine gave no reply in time; likewise.
            MemoryLimitError: memory ran out, and there is nothing to halve.
        """
        return self._loop.run(self.play_async(specs, progress, finished, parents))

    async def play_async(
        self,
        specs: Sequence[MatchSpec],
        progress: Progress | None = None,
        finished: Finished | None = None,
        parents: Mapping[str, Episode] | None = None,
    ) -> list[Episode]:
        """`play`, in the event loop of the engines. Cancelling it ends all matches that are live."""
        queue = MatchQueue(
            specs,
            self.policies,
            root_seed=self.root_seed,
            contents=self.contents,
            envs=self._envs,
            finished=finished,
            references=self.references,
            parents=parents,
        )
        order = play_exact if self.order == "exact" else play_free
        with self._asking.playing():
            while True:
                try:
                    await order(
                        queue, self.concurrency, self._steps, self._asking, progress or _unheard
                    )
                    break
                except ReplyRoomError:
                    raise
                except MemoryError as error:  # `MemoryLimitError` is one
                    if self._relieve is None:
                        raise
                    message = str(error) or "out of memory"
                # outside of the handler, which would keep the tensors of the failed step alive
                await self._halve(message, queue.play_again())
        await self._asking.take_speeds()
        return queue.episodes()

    async def _halve(self, message: str, left: int) -> None:
        """Have half as many matches live, and half as many replies written at once.

        Raises:
            MemoryLimitError: there is one match and one reply at a time already.
        """
        now = min(self.concurrency, left)
        done = [] if now == 1 else [f"live matches {now} -> {now // 2}"]
        self.concurrency = max(1, now // 2)
        engines = [p.engine for p in self.policies.values() if isinstance(p, ModelPolicy)]
        for engine in {id(engine): engine for engine in engines}.values():
            if isinstance(engine, HalvingEngine) and (rows := await engine.halve_rows()):
                done.append(f"rows of {type(engine).__name__} {rows[0]} -> {rows[1]}")
        if not done or self._relieve is None:
            raise MemoryLimitError(message)
        self._relieve(f"{message.rstrip('.')} ({', '.join(done)})")

    def take_requests(self, spec: MatchSpec) -> list[Request]:
        """Requests of a match that is being played or has just ended; they leave the trace."""
        key = match_key(self.root_seed, spec, self.contents)
        return [] if self._trace is None else self._trace.take(key)

    def take_prompt_tokens(self) -> PromptTokens:
        """What engines read since the last call, and how much of it they had."""
        return self._asking.take_prompt_tokens()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close environments and threads that were kept for re-use."""
        self._envs.close()
        self._steps.close()
        if self._own_loop:
            self._loop.close()


def _unheard(_: int) -> None:
    """Ignore progress."""
