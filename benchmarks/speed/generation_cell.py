"""One cell of `generation.py`: plays matches one way and prints what it took as JSON.

It runs as a program of its own, because the baseline is another checkout of this repository.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

BASE = "base"
GROUP = 8
"""Attempts per start state."""
ABLATIONS: dict[str, dict[str, Any]] = {
    "free": {},
    "exact": {},
    "no refill": {"refill": False},
    "no sharing": {"share_prefixes": False},
    "copied prefixes": {"read_in_place": 10**9},
}
"""Cell -> what `DecodingRules` differ in."""
NOTHING_KEPT = "nothing kept"
"""The cell without a cache between calls."""
STEPS_IN_LINE = "steps in line"
"""The cell that steps one environment at a time."""
NOT_PACKED, MKL = "weights not packed", "MKL"
"""The cell without weights in oneDNN's layout, and the one that leaves products to torch."""
ADAPTERS, ADAPTERS_APART = "4 adapters", "4 adapters apart"
"""The cells in which four versions play: all in one pass, and a pass each."""
VERSIONS = 4


def main() -> None:
    """Play one cell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cell")
    parser.add_argument("--env", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--matches", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    options = parser.parse_args()
    make = {"baseline": baseline, "trl": trl}.get(options.cell, ours)
    play = make(options)
    episodes, wall_s, cpu_s = timed(play, specs_of(options))
    print(json.dumps({**counts(episodes), "wall_s": wall_s, "cpu_s": cpu_s}))
    os._exit(0)  # threads and servers of libraries need no farewell


def specs_of(options: argparse.Namespace) -> list[Any]:
    """All seats are the base, or the versions in turn; all ways play the same start states."""
    records = importlib.import_module("srl_agents.records")
    envs = importlib.import_module("srl_envs")
    seats = len(envs.make(options.env).possible_agents)
    players = VERSIONS if options.cell in (ADAPTERS, ADAPTERS_APART) else 1
    return [
        records.MatchSpec(
            env_id=options.env,
            seed=number // GROUP,
            split="eval",
            seats=tuple(f"{BASE}{(number + seat) % players or ''}" for seat in range(seats)),
            purpose="eval",
            cluster=str(number // GROUP),
            schedule="generation",
            number=number // GROUP,
            attempt=number % GROUP,
        )
        for number in range(options.matches)
    ]


def timed(
    play: Callable[[Sequence[Any]], list[Any]], specs: list[Any]
) -> tuple[list[Any], float, float]:
    """Episodes, wall seconds, CPU seconds of this process; sandboxes are others."""
    before, clock = _cpu_s(), time.perf_counter()
    episodes = play(specs)
    return episodes, time.perf_counter() - clock, _cpu_s() - before


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def counts(episodes: list[Any]) -> dict[str, float]:
    """Turns and tokens of all seats."""
    turns = [turn for e in episodes for t in e.trajectories for turn in t.turns]
    return {
        "turns": len(turns),
        "prompt_tokens": statistics.fmean(len(turn.prompt_ids) for turn in turns),
        "tokens": sum(len(turn.completion_ids) for turn in turns),
        "void": sum(not episode.valid for episode in episodes),
    }


def ours(options: argparse.Namespace) -> Callable[[Sequence[Any]], list[Any]]:
    """The embedded engine, in either order of play."""
    import torch

    from srl_agents.agents.players import ModelPolicy
    from srl_agents.engines.embedded.decoding_settings import DecodingRules
    from srl_agents.engines.embedded.engine import TransformersEngine
    from srl_agents.engines.protocol import SamplingSettings
    from srl_agents.models import playing_model
    from srl_agents.models.base_model import BaseModel
    from srl_agents.rollouts import Rollouts

    if options.cell == NOT_PACKED:
        playing_model.PACKED_SHARE = 0.0
    if options.cell == MKL:
        torch.backends.mkldnn.is_available = lambda: False
    if options.cell == ADAPTERS_APART:
        playing_model.LoRAPlaying.mixes = False
    base = BaseModel.load(options.model, device="cpu")
    versions = versions_of(base) if options.cell in (ADAPTERS, ADAPTERS_APART) else [None]
    engine = TransformersEngine(
        base,
        SamplingSettings(max_new_tokens=options.tokens),
        max_batch_rows=options.rows,
        cache_bytes=0 if options.cell == NOTHING_KEPT else None,
        decoding=DecodingRules(**ABLATIONS.get(options.cell, {})),
    )
    rollouts = Rollouts(
        {f"{BASE}{n or ''}": ModelPolicy(engine, version) for n, version in enumerate(versions)},
        root_seed=0,
        order="exact" if options.cell == "exact" else "free",
        step_threads=1 if options.cell == STEPS_IN_LINE else None,
    )
    return rollouts.play


def versions_of(base: Any) -> list[Any]:
    """Versions of small random factors, so that each writes something else."""
    import torch

    versions = []
    for number in range(VERSIONS):
        name = f"learner{number}"
        base.add_adapter(name, number)
        with torch.no_grad():
            for key, parameter in base.trainable_parameters(name).items():
                if "lora_B" in key:
                    parameter.normal_(std=0.01, generator=torch.Generator().manual_seed(number))
        versions.append(base.freeze_adapter(name))
    return versions


def baseline(options: argparse.Namespace) -> Callable[[Sequence[Any]], list[Any]]:
    """Commit 27969fc: lockstep, on transformers' `generate`. The import path is that checkout's."""
    engines = importlib.import_module("srl_agents.engines.embedded.engine")
    models = importlib.import_module("srl_agents.engines.base_model")
    players = importlib.import_module("srl_agents.policies.players")
    runner = importlib.import_module("srl_agents.rollouts.runner")
    engine = engines.TransformersEngine(
        models.BaseModel.load(options.model, device="cpu"),
        engines.SamplingSettings(max_new_tokens=options.tokens),
        max_batch_rows=options.rows,
    )
    play: Callable[[Sequence[Any]], list[Any]] = runner.Runner(
        {BASE: players.ModelPolicy(engine)}, root_seed=0
    ).play
    return play


def trl(options: argparse.Namespace) -> Callable[[Sequence[Any]], list[Any]]:
    """TRL's generation of one turn after the other, for all matches together."""
    from srl_agents.agents.players import ModelPolicy
    from srl_agents.models.base_model import BaseModel
    from srl_agents.rollouts import Rollouts

    base = BaseModel.load(
        options.model, device="cpu"
    )  # encodes, decodes, and holds the folder's path
    engine = TRLEngine(base, options)
    return Rollouts({BASE: ModelPolicy(engine)}, root_seed=0).play


class TRLEngine:
    """`GRPOTrainer._generate_single_turn` as an engine of the order ``exact``.

    It is what TRL calls per turn in its own tool loop; SmolLM2's chat template has no tools, so the
    loop around it is ours. TRL cuts replies at the end token; it does not support stop texts.
    """

    def __init__(self, base: Any, options: argparse.Namespace) -> None:
        import tempfile

        from datasets import Dataset
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from trl import GRPOConfig, GRPOTrainer

        from srl_agents.engines.protocol import Capabilities
        from srl_agents.models.sources import catalog

        folder = catalog.resolve(options.model)
        self._base, self._tokens, self._rows = base, options.tokens, options.rows
        self.capabilities = Capabilities(
            token_ids=True,
            logprobs=False,
            seeded=False,
            versions=False,
            context_length=base.context_length,
        )
        self._trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(folder, dtype="float32"),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=GRPOConfig(
                output_dir=tempfile.mkdtemp(),
                per_device_train_batch_size=GROUP,
                num_generations=GROUP,
                max_completion_length=options.tokens,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list([{"prompt": "x"}] * GROUP),
            processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
        )

    async def generate_together(self, requests: Sequence[Any]) -> list[Any]:
        """Replies in the order of the requests, so many rows at a time."""
        from srl_agents.engines.protocol import Generation

        prompts = [self._base.encode_prompt(request.observation) for request in requests]
        replies: list[list[int]] = []
        for start in range(0, len(prompts), self._rows):
            part = [list(prompt) for prompt in prompts[start : start + self._rows]]
            written, _ = self._trainer._generate_single_turn(part, None, {}, 1)
            replies += written
        return [
            Generation(
                text=self._base.decode(reply),
                version=None,
                prompt_ids=prompt,
                token_ids=tuple(reply),
                finish="length" if len(reply) == self._tokens else "stop",
            )
            for prompt, reply in zip(prompts, replies, strict=True)
        ]

    async def generate(self, request: Any) -> Any:
        """One reply."""
        (reply,) = await self.generate_together([request])
        return reply

    async def install(self, update: Any) -> None:
        """Not supported: TRL's generation plays only the base."""
        raise NotImplementedError("TRL's generation is measured only with the base.")

    async def retire(self, version: Any) -> None:
        """Not supported: TRL's generation plays only the base."""
        raise NotImplementedError("TRL's generation is measured only with the base.")

    async def sleep(self) -> None:
        """Not supported: TRL's generation plays only the base."""
        raise NotImplementedError("TRL's generation is measured only with the base.")

    async def wake(self) -> None:
        """Not supported: TRL's generation plays only the base."""
        raise NotImplementedError("TRL's generation is measured only with the base.")

    async def close(self) -> None:
        """The process ends with the cell, so there is nothing to give back."""


if __name__ == "__main__":
    main()
