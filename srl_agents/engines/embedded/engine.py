"""The embedded engine: replies of any mixture of versions of one base, in this process.

A thread of its own runs the decoding loop, and ends when there is nothing to do. Coroutines hand it rows
and wait. Between steps it runs what others ask of it, so a version is installed wholly or not at all.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

import numpy as np
import torch

from srl_agents.caching.objectives import NO_OBJECTIVES
from srl_agents.engines.embedded.captured_passes import capture_of
from srl_agents.engines.embedded.decoding import Decoder
from srl_agents.engines.embedded.decoding_settings import DecodingRules
from srl_agents.engines.embedded.loop_thread import LoopThread
from srl_agents.engines.embedded.places.kv_files import form_of
from srl_agents.engines.embedded.places.kv_network import Received
from srl_agents.engines.embedded.places.kv_packing import EightBits
from srl_agents.engines.embedded.places.kv_tiers import BLOCK, KVTiers, TierLimits
from srl_agents.engines.embedded.row import Row
from srl_agents.engines.meter import EngineSpeed, StepMeter
from srl_agents.engines.protocol import (
    Capabilities,
    Generation,
    GenerationRequest,
    SamplingSettings,
)
from srl_agents.engines.tasks import within
from srl_agents.engines.thinking import thinking_of
from srl_agents.engines.token_choice import StopTexts, uniforms
from srl_agents.models.base_model import BaseModel, limit_threads
from srl_agents.models.memory.available import empty_cache, memory_limit, memory_of
from srl_agents.records import WeightUpdate, WeightVersion
from srl_envs.errors import ConfigError, DeadlineError, ModelError, UnknownVersionError

Open = Callable[[WeightUpdate], Mapping[str, torch.Tensor]]
"""`Transport.open` of the transport that the trainer publishes with."""
_LESS = "rollout.batch_rows or rollout.max_new_tokens, or set dtype to bfloat16"
_LIVE_SHARE, _CACHE_SHARE, _TOGETHER_SHARE = 0.4, 0.2, 0.2
"""Of free memory for live rows and for prefixes; of all memory for `generate_together`, since what is
free changes from run to run."""


class TransformersEngine:
    """Samples replies from a `BaseModel`.

    `generate` waits without a limit on how many wait: each is one coroutine of the caller, which is
    therefore what bounds them.

    Args:
        base: the model, and the versions that are frozen on it.
        sampling: for requests that bring none of their own.
        open_update: opens what `install` is given; None plays what the base has.
        max_batch_rows: most live rows.
        live_bytes: of live rows' keys and values; None is a share of memory.
        cache_bytes: of prefixes that are kept between requests; None is a share of memory.
        deadline_s: for requests that bring none; None waits for ever.
        control_deadline_s: for install, retire, sleep, wake and close, each.
        decoding: what the loop may do; ``max_rows`` in it is replaced.
        tiers: places for prefixes beyond ``cache_bytes``; `generate_together` uses none.
        clock: seconds, for the times of `take_speed`.
    """

    def __init__(
        self,
        base: BaseModel,
        sampling: SamplingSettings,
        *,
        open_update: Open | None = None,
        max_batch_rows: int = 64,
        live_bytes: int | None = None,
        cache_bytes: int | None = None,
        deadline_s: float | None = None,
        control_deadline_s: float = 600.0,
        decoding: DecodingRules | None = None,
        tiers: TierLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.base, self.sampling = base, sampling
        self._open, self._deadline_s = open_update, deadline_s
        self._control_deadline_s = control_deadline_s
        self._follow(replace(decoding or DecodingRules(), max_rows=max_batch_rows))
        self._stops: dict[tuple[str, ...], StopTexts] = {}
        self._thinking = thinking_of(base.chat)
        self._model = base.playing()
        self._capture = capture_of(self._model)
        self._live_bytes, self._cache_bytes = live_bytes, cache_bytes
        self._tiers: KVTiers | None = None
        if tiers is not None and (tiers.host_bytes or tiers.disk_bytes):
            packed = EightBits.of(self._model) if self._decoding.eight_bits else None
            form = None
            if tiers.shared is not None:
                form = form_of(base, self._model, BLOCK, packed)
            kept = packed or self._model
            self._tiers = KVTiers(tiers, kept.bytes_per_token, form=form)
        memory = memory_of(base.device)
        self._together_bytes = int(_TOGETHER_SHARE * memory.total)
        self._decoder = self._new_decoder(
            int(_LIVE_SHARE * memory.free),
            int(_CACHE_SHARE * memory.free),
            self._decoding,
            self._tiers,
        )
        self._asked: dict[Row, Future[Row]] = {}
        """Rows of `generate` that have no answer yet."""
        self._in_flight: Counter[str] = Counter()
        """Open requests of each version."""
        self._retired: set[str] = set()
        self._meter = StepMeter(self._decoding.max_rows, clock)
        self._asleep = self._closed = False
        self._opening = LoopThread(f"weights for {base.name}", lambda: None, lambda: False)
        """Opens updates beside the loop; one that hangs never delays the exit."""
        self._thread = LoopThread(f"engine of {base.name}", limit_threads, self._step)

    @property
    def capabilities(self) -> Capabilities:
        """See `Engine`."""
        return Capabilities(
            token_ids=True,
            logprobs=True,
            seeded=True,
            versions=True,
            context_length=self.base.context_length,
            thoughts=True,
            memory=True,
        )

    @property
    def received(self) -> Received:
        """Keys and values that `TierLimits.peers` have sent."""
        return Received() if self._tiers is None else self._tiers.received

    async def generate(self, request: GenerationRequest) -> Generation:
        """See `Engine`."""
        row = self._row(request)
        if row is None:
            return self._no_room(request)
        return self._generation(request, await self._answered(row, request))

    async def prefill(self, request: GenerationRequest) -> int:
        """Read a prompt and write no reply, so that another engine's `generate` need not read it.

        With ``cache_bytes=0`` and `TierLimits.shared` the prompt's whole blocks are in the shared folder
        when this returns.

        Returns:
            Tokens of the prompt that were computed; others were there.
        """
        row = self._row(request)
        if row is None:
            return 0
        row.ended = lambda _: True  # after the first token
        return len(row.prompt) - (await self._answered(row, request)).cached

    async def _answered(self, row: Row, request: GenerationRequest) -> Row:
        """The row when its reply is written.

        Raises:
            DeadlineError: that took too long.
        """
        deadline_s = self._deadline_s if request.deadline_s is None else request.deadline_s
        answer: Future[Row] = Future()
        try:
            async with asyncio.timeout(deadline_s):
                await asyncio.wrap_future(self._thread.submit(lambda: self._add(row, answer)))
                done = await asyncio.wrap_future(answer)
        except TimeoutError:
            raise DeadlineError(
                f"no reply of {row.version or self.base.name} within {deadline_s} s. Allow more, or ask "
                "for fewer at once."
            ) from None
        finally:
            if not answer.done() or answer.cancelled():
                self._thread.submit(lambda: self._drop(row))
        return done

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """See `RepeatableEngine`. Nothing computed earlier is used, nothing is kept in 8 bits, and deadlines
        do not apply.

        Cancelling it, or closing the engine, ends the work after the present step.
        """
        rows = [self._row(request) for request in requests]
        asked = [row for row in rows if row is not None]
        nobody_waits = threading.Event()
        try:
            if asked:
                work = self._thread.submit(lambda: self._play_out(asked, nobody_waits))
                await asyncio.wrap_future(work)
        finally:
            nobody_waits.set()
        return [
            self._no_room(request) if row is None else self._generation(request, row)
            for request, row in zip(requests, rows, strict=True)
        ]

    async def install(self, update: WeightUpdate) -> None:
        """See `Engine`."""
        self._require_open()
        if self._open is None:
            raise ConfigError("this engine was made without a transport: give it open_update.")
        await self._in_time(self._install(update, self._open), f"installing {update.version}")

    async def retire(self, version: WeightVersion) -> None:
        """See `Engine`."""
        name = str(version)
        if name in self.base.frozen:
            self._retired.add(name)
            await self._between_steps(lambda: self._forget_if_done(name), f"retiring {name}")

    async def sleep(self) -> None:
        """See `Engine`; rows that were being written start again after `wake`."""
        await self._between_steps(lambda: self._rest(asleep=True), "sleep")

    async def wake(self) -> None:
        """See `Engine`."""
        await self._between_steps(lambda: self._rest(asleep=False), "wake")

    async def take_speed(self) -> EngineSpeed:
        """See `MeteredEngine`."""
        return await asyncio.wrap_future(self._thread.submit(self._speed))

    async def match_over(self, match: tuple[int, ...]) -> None:
        """See `MatchEngine`."""
        self._thread.submit(lambda: self._decoder.over(match))

    async def halve_rows(self) -> tuple[int, int] | None:
        """See `HalvingEngine`; a step reads half as many prompt tokens, too."""
        before = self._decoding.max_rows
        if before == 1:
            return None
        tokens = max(1, self._decoding.step_tokens // 2)
        self._follow(replace(self._decoding, max_rows=before // 2, step_tokens=tokens))
        await self._between_steps(lambda: self._decoder.lower(self._decoding), "halving")
        self._meter.places = self._decoding.max_rows
        gc.collect()  # the step that failed lies in a circle of tasks and errors
        empty_cache(self.base.device)
        return before, self._decoding.max_rows

    async def close(self) -> None:
        """See `Engine`."""
        self._closed = True
        await self._between_steps(self._give_up, "close")
        for thread in (self._thread, self._opening):
            thread.end()

    # On the caller's thread

    def _follow(self, decoding: DecodingRules) -> None:
        """Decode by these settings from now on."""
        self._decoding = decoding
        self._repeatable = replace(decoding, eight_bits=False, objectives=NO_OBJECTIVES)
        """For `generate_together`."""

    async def _install(self, update: WeightUpdate, open_update: Open) -> None:
        name = str(update.version)
        if not await asyncio.wrap_future(self._thread.submit(lambda: self._keep(name))):
            tensors = await asyncio.wrap_future(self._opening.submit(lambda: open_update(update)))
            await asyncio.wrap_future(self._thread.submit(lambda: self._freeze(name, tensors)))

    async def _between_steps(self, work: Callable[[], None], what: str) -> None:
        await self._in_time(asyncio.wrap_future(self._thread.submit(work)), what)

    async def _in_time(self, work: Awaitable[None], what: str) -> None:
        await within(work, self._control_deadline_s, f"{what} on the engine of {self.base.name}")

    def _require_open(self) -> None:
        if self._closed:
            raise ModelError(f"the engine of {self.base.name} is closed; make another one.")

    def _row(self, request: GenerationRequest) -> Row | None:
        """What the loop works on; None where the prompt leaves no room for a reply."""
        self._require_open()
        name = None if request.version is None else str(request.version)
        if name is not None and (name in self._retired or name not in self.base.frozen):
            raise UnknownVersionError(
                f"version {name} is not installed on {self.base.name}. Installed are: "
                f"{', '.join(v for v in self.base.frozen if v not in self._retired) or 'none'}."
            )
        sampling = request.sampling or self.sampling
        prompt = self._prompt(request)
        most = self.base.chat.reply_tokens(sampling.max_new_tokens)
        if len(prompt) + most > self.base.context_length:
            return None
        if sampling.stop not in self._stops:
            self._stops[sampling.stop] = StopTexts(self.base.tokenizer, sampling.stop)
        stops, ends = self._stops[sampling.stop], self.base.eos_token_ids
        return Row(
            prompt=prompt,
            version=name,
            sampling=sampling,
            uniforms=uniforms(request.key, most).astype(np.float32),
            ended=lambda reply: reply[-1] in ends or stops.ended(reply),
            message_ends=ends,
            base_tokens=self._base_tokens(prompt, name),
            thinking=self._thinking,
            session=request.key[:-1],
            turns_ahead=request.turns_ahead,
        )

    def _base_tokens(self, prompt: tuple[int, ...], version: str | None) -> int:
        """First tokens of a prompt that the base reads, where the version acts from the reply on."""
        activated = self.base.activated_tokens
        return len(prompt) - activated if activated and version is not None else 0

    def _prompt(self, request: GenerationRequest) -> tuple[int, ...]:
        """What is read, with as many earlier turns as leave room for the reply."""
        sampling = request.sampling or self.sampling
        longest = self.base.context_length - self.base.chat.reply_tokens(sampling.max_new_tokens)
        return self.base.encode_prompt(
            request.observation, request.examples, request.earlier, longest
        )

    def _no_room(self, request: GenerationRequest) -> Generation:
        prompt = self._prompt(request)
        return Generation(text="", version=request.version, prompt_ids=prompt, finish="length")

    def _generation(self, request: GenerationRequest, row: Row) -> Generation:
        """A finished row as a reply.

        Raises:
            ModelError: its weights are broken.
        """
        if row.finish not in ("stop", "length"):
            raise ModelError(
                f"{row.version or self.base.name}: the probabilities of the next token are not "
                "numbers, so the weights are broken. Train again with a lower learning rate."
            )
        thoughts, text = "", self.base.decode(row.reply)
        if self._thinking is not None:
            thoughts, text = self._thinking.texts(row.reply, row.thought_tokens, row.forced_tokens)
        return Generation(
            text=text,
            version=request.version,
            prompt_ids=row.prompt,
            token_ids=tuple(row.reply),
            logprobs=tuple(row.logprobs),
            finish=row.finish,
            thoughts=thoughts,
            thought_tokens=row.thought_tokens,
            forced_tokens=row.forced_tokens,
            cached_tokens=row.cached,
        )

    # On the loop's thread

    def _add(self, row: Row, answer: Future[Row]) -> None:
        self._require_open()
        self._decoder.require_room(row)
        self._asked[row] = answer
        self._meter.asked(row)
        if row.version is not None:
            self._in_flight[row.version] += 1
        self._decoder.add(row)

    def _drop(self, row: Row) -> None:
        if row in self._asked:
            self._decoder.drop([row])
            self._done(row)

    def _done(self, row: Row) -> Future[Row]:
        answer = self._asked.pop(row)
        self._meter.gone(row)
        if row.version is not None:
            self._in_flight[row.version] -= 1
            self._forget_if_done(row.version)
        return answer

    @torch.no_grad()
    def _step(self) -> bool:
        """One step of the loop; whether there is more to do."""
        if self._asleep or not self._decoder.busy:
            return False
        try:
            with self._memory():
                finished = self._decoder.step()
            self._time([*self._decoder.rows, *finished])
            for row in finished:
                with suppress(InvalidStateError):  # cancelled meanwhile
                    self._done(row).set_result(row)
        except Exception as error:  # noqa: BLE001 - the waiting callers raise it, and the loop goes on
            self._fail(error)
        return self._decoder.busy

    def _speed(self) -> EngineSpeed:
        speed = self._meter.take()
        if self._tiers is not None:
            speed.host_tokens, speed.disk_tokens = self._tiers.take_fetched()
        return speed

    def _time(self, rows: Sequence[Row]) -> None:
        """Tell the meter who got a token."""
        fresh = [row for row in rows if len(row.reply) == 1]
        self._meter.stepped(fresh, [row for row in rows if len(row.reply) > 1])

    def _fail(self, error: BaseException) -> None:
        """Tell everybody that no reply will come."""
        self._decoder.clear()
        for row in list(self._asked):
            with suppress(InvalidStateError):
                self._done(row).set_exception(error)

    @torch.no_grad()
    def _play_out(self, rows: list[Row], nobody_waits: threading.Event) -> None:
        """Write all replies on a decoder of its own, without earlier prefixes."""
        self._require_open()
        self._model.choose(())
        together = self._together_bytes
        decoder = self._new_decoder(together, together, self._repeatable)
        for row in rows:
            decoder.require_room(row)
            self._meter.asked(row)
        decoder.waiting.extend(rows)
        try:
            with self._memory():
                while decoder.busy and not nobody_waits.is_set():
                    self._require_open()
                    finished = decoder.step()
                    self._time([*decoder.rows, *finished])
        finally:
            for row in rows:
                self._meter.gone(row)

    def _new_decoder(
        self,
        live_bytes: int,
        cache_bytes: int,
        decoding: DecodingRules,
        tiers: KVTiers | None = None,
    ) -> Decoder:
        """One with these limits, where the caller of the engine gave none."""
        live = live_bytes if self._live_bytes is None else self._live_bytes
        return Decoder(
            self._model,
            decoding,
            live_tokens=live // self._model.bytes_per_token,
            cache_bytes=cache_bytes if self._cache_bytes is None else self._cache_bytes,
            tiers=tiers,
            capture=self._capture,
        )

    def _memory(self) -> AbstractContextManager[None]:
        doing = f"generation with {self.base.name} on {self.base.device}"
        return memory_limit(doing, _LESS)

    def _keep(self, name: str) -> bool:
        """Whether the version is there; it then stays, also if it was retired and has rows left."""
        self._retired.discard(name)
        return name in self.base.frozen

    def _freeze(self, name: str, tensors: Mapping[str, torch.Tensor]) -> None:
        if name not in self.base.frozen:
            self.base.freeze(name, tensors)

    def _forget_if_done(self, name: str) -> None:
        if name in self._retired and not self._in_flight[name]:
            self._decoder.forget(name)
            self.base.forget(name)
            self._retired.discard(name)

    def _rest(self, *, asleep: bool) -> None:
        self._asleep = asleep
        if asleep:
            self._decoder.waiting.extend(self._decoder.clear())
        self._model.rest(asleep=asleep)

    def _give_up(self) -> None:
        self._fail(ModelError(f"the engine of {self.base.name} was closed; make another one."))
        if self._tiers is not None:
            self._tiers.close()
