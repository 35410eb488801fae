"""An engine that writes one reply after another and remembers nothing: slow, and short enough to read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from srl_agents.engines.protocol import Capabilities, Generation, GenerationRequest
from srl_agents.engines.settings import EngineSettings, EngineSite
from srl_agents.records import WeightUpdate, WeightVersion
from srl_envs.errors import ConfigError, DeadlineError, ModelError, UnknownVersionError


@dataclass(frozen=True, kw_only=True, slots=True)
class OneAtATimeSettings(EngineSettings):
    """Nothing to set."""

    kind: str = "one_at_a_time"
    """Selects these settings."""

    def make_engine(self, site: EngineSite) -> OneAtATime:
        """The engine, on the base and in the folder of one run."""
        sampling = site.sampling
        if sampling.top_k or sampling.top_p < 1 or sampling.min_p:
            raise ConfigError(
                "engine 'one_at_a_time' draws from all tokens: leave out the filters."
            )
        return OneAtATime(site)


class OneAtATime:
    """Versions are frozen on the base; a lock lets one request write at a time."""

    def __init__(self, site: EngineSite) -> None:
        self.base, self.sampling, self.open_update = site.base, site.sampling, site.open_update
        self._installed: set[WeightVersion] = set()
        self._writing: Counter[WeightVersion] = Counter()
        self._turn, self._awake, self._closed = asyncio.Lock(), asyncio.Event(), False
        self._awake.set()

    @property
    def capabilities(self) -> Capabilities:
        """What callers may ask of it."""
        return Capabilities(
            token_ids=True, logprobs=True, seeded=True, versions=True,
            context_length=self.base.context_length,
        )  # fmt: skip

    async def generate(self, request: GenerationRequest) -> Generation:
        """One reply, from the version that the request names, or from the base."""
        self._require_open()
        if request.version is not None and request.version not in self._installed:
            raise UnknownVersionError(f"{request.version} is not installed here.")
        if request.version is not None:
            self._writing[request.version] += 1
        try:
            async with asyncio.timeout(request.deadline_s):
                await self._awake.wait()
                async with self._turn:
                    return await self._write(request)
        except TimeoutError:
            raise DeadlineError(f"no reply within {request.deadline_s} s.") from None
        finally:
            if request.version is not None:
                self._writing[request.version] -= 1
                self._drop_if_unused(request.version)

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Replies in the order of the requests."""
        return [await self.generate(request) for request in requests]

    async def install(self, update: WeightUpdate) -> None:
        """Take a version, whole or not at all; requests in flight keep theirs."""
        self._require_open()
        if update.version in self._installed:
            return
        name = str(update.version)
        if name not in self.base.frozen:  # retired, and not forgotten yet
            self.base.freeze(name, self.open_update(update))
        self._installed.add(update.version)

    async def retire(self, version: WeightVersion) -> None:
        """Drop a version when its last reply is written."""
        self._installed.discard(version)
        self._drop_if_unused(version)

    async def sleep(self) -> None:
        """Let requests wait."""
        self._awake.clear()

    async def wake(self) -> None:
        """Go on."""
        self._awake.set()

    async def close(self) -> None:
        """End, and refuse what is asked later."""
        self._closed = True
        self._awake.set()
        for version in tuple(self._installed):
            await self.retire(version)

    def _require_open(self) -> None:
        if self._closed:
            raise ModelError("this engine is closed.")

    def _drop_if_unused(self, version: WeightVersion) -> None:
        if version not in self._installed and not self._writing[version]:
            self.base.forget(str(version))

    async def _write(self, request: GenerationRequest) -> Generation:
        sampling = request.sampling or self.sampling
        prompt = self.base.encode_prompt(request.observation, request.examples)
        ids, logprobs = list[int](), list[float]()
        finish: Literal["stop", "length"] = "length"
        room = len(prompt) + sampling.max_new_tokens <= self.base.context_length
        draws = np.random.default_rng(list(request.key)).random(sampling.max_new_tokens)
        for draw in draws if room else ():
            await asyncio.sleep(0)  # others may ask, cancel and close
            self._require_open()
            token, logprob = self._draw(
                [*prompt, *ids], request.version, sampling.temperature, draw
            )
            ids.append(token)
            logprobs.append(logprob)
            ended = token == self.base.tokenizer.eos_token_id
            if ended or any(stop in self.base.decode(ids) for stop in sampling.stop):
                finish = "stop"
                break
        return Generation(
            text=self.base.decode(ids), version=request.version, prompt_ids=prompt,
            token_ids=tuple(ids), logprobs=tuple(logprobs), finish=finish,
        )  # fmt: skip

    @torch.no_grad()
    def _draw(
        self, ids: list[int], version: WeightVersion | None, temperature: float, draw: float
    ) -> tuple[int, float]:
        """A token and its log-probability, by the inverse of the distribution function."""
        tokens = torch.tensor([ids], device=self.base.device)
        with self.base.through(None if version is None else str(version)):
            logits = self.base.model(input_ids=tokens).logits[0, -1].double()
        chances = (logits / (temperature or 1.0)).log_softmax(-1).cpu()
        if not temperature:
            token = int(chances.argmax())
        else:
            token = min(int((chances.exp().cumsum(0) <= draw).sum()), len(chances) - 1)
        return token, float(chances[token])
