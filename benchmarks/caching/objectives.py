"""Share of requests that hold their times to first and between tokens: bursts, with the rule on and off.

    python -m benchmarks.caching.objectives [--model smollm2-135m] [--bursts 3] [--burst 12] [--json FILE]

Bursts of requests reach the embedded engine's loop. All times are CPU seconds of this process, which has one
thread, so that a loaded machine changes little; where nothing is to do, the clock goes on to the next burst.
A single request is measured first: a first token may take ``--first`` times as long as its own, the next one
``--between`` times as long as its step. A reply holds its time between tokens if nine in ten of its tokens
do. Every setting plays the same requests, with an estimate that was learned in a burst before. Exit code 1
where a setting wrote other tokens.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from srl_agents.caching.objectives import Objectives
from srl_agents.engines.embedded.decoding import Decoder
from srl_agents.engines.embedded.decoding_settings import DecodingRules
from srl_agents.engines.embedded.row import Row
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.token_choice import uniforms
from srl_agents.models.base_model import BaseModel

RULES, OWN = 96, (32, 320)
"""Tokens that all prompts share, and of each one's own."""
REPLY = (8, 24)
IDS = 250
"""Token ids below this are in every vocabulary."""
NINE_IN_TEN = 0.9


@dataclass(slots=True)
class RowTimes:
    """Times at which a row was asked for and its tokens came."""

    row: Row
    asked_s: float
    tokens_s: list[float] = field(default_factory=list)

    def held(self, limits: Objectives) -> tuple[bool, bool]:
        """Whether its first token and its further ones came in time."""
        first_s, between_s = limits.first_token_s or 0.0, limits.between_tokens_s or 0.0
        gaps = np.diff(self.tokens_s)
        return (
            self.tokens_s[0] - self.asked_s <= first_s,
            not len(gaps) or bool((gaps <= between_s).mean() >= NINE_IN_TEN),
        )


def asked(seed: int, count: int) -> list[Row]:
    """Prompts that share their rules; each reply has a length of its own."""
    chance = random.Random(seed)
    rules = [random.Random(0).randrange(3, IDS) for _ in range(RULES)]
    rows = []
    for number in range(count):
        own = [chance.randrange(3, IDS) for _ in range(chance.randint(*OWN))]
        most = chance.randint(*REPLY)
        rows.append(
            Row(
                prompt=(*rules, *own),
                version=None,
                sampling=SamplingSettings(max_new_tokens=most, top_k=20),
                uniforms=uniforms((seed, number), most).astype(np.float32),
                ended=lambda reply: False,
            )
        )
    return rows


class Clock:
    """CPU seconds, and those that were skipped."""

    def __init__(self) -> None:
        self.skipped_s = 0.0

    def __call__(self) -> float:
        """Now."""
        return time.process_time() + self.skipped_s


CLOCK = Clock()


def play(decoder: Decoder, bursts: list[list[Row]], every_s: float) -> list[RowTimes]:
    """Ask for each burst at its time, and step until all are written."""
    began_s, times_by_row = CLOCK(), dict[Row, RowTimes]()
    due = [(began_s + number * every_s, burst) for number, burst in enumerate(bursts)]
    with torch.no_grad():
        while due or decoder.busy:
            now_s = CLOCK()
            while due and due[0][0] <= now_s:
                at_s, burst = due.pop(0)
                for row in burst:
                    times_by_row[row] = RowTimes(row, at_s)
                    decoder.add(row)
            if not decoder.busy:
                CLOCK.skipped_s += max(0.0, due[0][0] - now_s)
                continue
            finished = decoder.step()
            now_s = CLOCK()
            for row in (*decoder.rows, *finished):
                times_by_row[row].tokens_s.append(now_s)
    return list(times_by_row.values())


def made(base: BaseModel, how: DecodingRules) -> Decoder:
    """A new decoding loop on the model."""
    return Decoder(base.playing(), how, live_tokens=10**6, cache_bytes=2**28, clock=CLOCK)


def measured(times: list[RowTimes], limits: Objectives) -> dict[str, float]:
    """Shares of kept objectives, times and throughput of one setting in one round."""
    held = [each.held(limits) for each in times]
    firsts = [each.tokens_s[0] - each.asked_s for each in times]
    gaps = np.concatenate([np.diff(each.tokens_s) for each in times])
    return {
        "first_held": statistics.mean(first for first, _ in held),
        "between_held": statistics.mean(between for _, between in held),
        "both_held": statistics.mean(all(each) for each in held),
        "first_p50_s": float(np.median(firsts)),
        "first_max_s": max(firsts),
        "between_p50_s": float(np.median(gaps)),
        "between_p99_s": float(np.quantile(gaps, 0.99)),
        "tokens_per_s": sum(len(each.tokens_s) for each in times)
        / (max(each.tokens_s[-1] for each in times) - min(each.asked_s for each in times)),
    }


def single_request(base: BaseModel, burst: int) -> tuple[float, float, float]:
    """Seconds to the first token, between tokens, and of a burst without objectives."""
    decoder = made(base, DecodingRules())
    play(decoder, [asked(1, 2)], 0.0)
    firsts: list[float] = []
    gaps: list[float] = []
    for seed in range(2, 6):
        (one,) = play(decoder, [asked(seed, 1)], 0.0)
        firsts.append(one.tokens_s[0] - one.asked_s)
        gaps.extend(np.diff(one.tokens_s))
    began_s = CLOCK()
    play(decoder, [asked(7, burst)], 0.0)
    return statistics.median(firsts), statistics.median(gaps), CLOCK() - began_s


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--bursts", type=int, default=3)
    parser.add_argument("--burst", type=int, default=12, help="requests at once")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--first",
        type=float,
        default=8.0,
        help="limit on a first token, as a multiple of a single request's",
    )
    parser.add_argument(
        "--between",
        type=float,
        default=5.0,
        help="limit on a step, as a multiple of a single request's",
    )
    parser.add_argument(
        "--load", type=float, default=0.7, help="a burst's work over the time to the next"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    base = BaseModel.load(options.model, device="cpu", dtype="float32")
    first_s, between_s, burst_s = single_request(base, options.burst)
    limits = Objectives(
        first_token_s=options.first * first_s, between_tokens_s=options.between * between_s
    )
    settings = {
        "off": DecodingRules(),
        "steps of 128": DecodingRules(step_tokens=128),
        "objectives": DecodingRules(objectives=limits),
    }
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in settings}
    differ = 0
    for number in range(options.rounds):
        written: list[list[list[int]]] = []
        for name, how in settings.items():
            decoder = made(base, how)
            play(decoder, [asked(8, options.burst // 2)], 0.0)
            bursts = [asked(100 * number + 10 + k, options.burst) for k in range(options.bursts)]
            times = play(decoder, bursts, burst_s / options.load)
            rounds[name].append(measured(times, limits))
            written.append([row.reply for burst in bursts for row in burst])
            print(number, f"{name:14}", json.dumps(rounds[name][-1]), flush=True)
        differ += sum(
            len({tuple(reply) for reply in same}) > 1 for same in zip(*written, strict=True)
        )
    found: dict[str, Any] = {
        "alone": {"first_s": first_s, "between_s": between_s, "burst_s": burst_s},
        "limits": {"first_s": limits.first_token_s, "between_s": limits.between_tokens_s},
        "requests": options.rounds * options.bursts * options.burst,
        "replies_that_differ": differ,
        "settings": {
            name: {key: statistics.mean(one[key] for one in results) for key in results[0]}
            for name, results in rounds.items()
        },
    }
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
