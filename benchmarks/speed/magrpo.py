"""MAGRPO with two agents: SRL beside comlrl 1.4, generation and update together.

    python -m venv .venv-comlrl && .venv-comlrl/bin/pip install comlrl==1.4.3 torch peft
    python -m benchmarks.speed.magrpo --peer .venv-comlrl/bin/python [--model tiny] [--json FILE]

Both get one model, the same prompts (rendered by its template, of exactly so many tokens), replies of
exactly so many tokens, joint samples of two agents, one joint reward of both texts, advantages that are
centred and scaled within a group, float32, AdamW and one torch thread. An update learns from four
prompts. Each way runs in a process of its own; ways take turns in every round, and medians of the rounds
count. Each side has two ways, of which the faster counts: the peer trains two copies of the model, whole
(its default) or with LoRA of rank 8; ours trains two adapters of rank 8 on one base with the default
settings, all rows in one pass or a group in each. Seconds are CPU seconds per trained token, generation
and update together; memory is the largest since the first update. The last lines say where the time of
each side's faster way went. Source of the algorithm: arXiv:2508.04652.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.speed.comlrl_side import AGENTS, joint_reward, peak_mib, reset_peak

PROMPTS = 4
OURS = ("ours", "ours, group by group")
PEERS = ("comlrl, LoRA", "comlrl, whole")
WAYS = (*OURS, *PEERS)
PARTS = ("generation", "gradients", "the rest")
Cell = dict[str, Any]
Row = dict[str, Any]


def cells(model: str, updates: int, only: list[str]) -> list[Cell]:
    """Sizes of prompts, replies and groups, such as 64/16/4, with texts."""
    from srl_agents.models.base_model import BaseModel

    base = BaseModel.load(model, device="cpu")
    found = []
    for prompt, reply, group in product((64, 256), (16, 64), (4, 8)):
        if only and f"{prompt}/{reply}/{group}" not in only:
            continue
        texts = [observation(base, prompt, number) for number in range(PROMPTS)]
        found.append(
            {
                "prompt": prompt, "reply": reply, "group": group, "updates": updates,
                "observations": texts,
                "prompts": [base.tokenizer.decode(base.encode_prompt(text)) for text in texts],
            }
        )  # fmt: skip
    return found


def observation(base: Any, tokens: int, number: int) -> str:
    """A text whose prompt has exactly so many tokens."""
    text = f"game {number}"
    while len(base.encode_prompt(text)) < tokens:
        longer = [f"{text}{more}" for more in (" play", " a", ".", "x")]
        text = next(one for one in longer if len(base.encode_prompt(one)) <= tokens)
    return text


def measure(model: str, cell: Cell, by_group: bool) -> dict[str, float]:
    """Our side of one cell."""
    import asyncio

    import numpy as np

    from srl_agents.credit.batches import training_batch
    from srl_agents.credit.group_relative import group_advantages
    from srl_agents.engines.embedded.engine import TransformersEngine
    from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
    from srl_agents.models.base_model import BaseModel
    from srl_agents.records import Turn
    from srl_agents.trainers.grpo import GRPOLearner
    from srl_agents.trainers.grpo_settings import GRPOSettings

    base = BaseModel.load(model, lora_rank=8, dtype="float32", device="cpu")
    base.eos_token_ids = frozenset()
    rows = PROMPTS * cell["group"]
    sampling = SamplingSettings(max_new_tokens=cell["reply"], stop=())
    engine = TransformersEngine(base, sampling, max_batch_rows=AGENTS * rows)
    settings = GRPOSettings(
        micro_batch_rows=cell["group"] if by_group else rows, learning_rate=5e-6
    )
    team = [GRPOLearner(f"agent{n}", base, settings, 1.0, seed=n) for n in range(AGENTS)]
    texts = [text for text in cell["observations"] for _ in range(cell["group"])]

    spent = dict.fromkeys(PARTS, 0.0)

    def update(number: int) -> None:
        begun = time.process_time()
        versions = [base.freeze_adapter(agent.name, agent.version) for agent in team]
        requests = [
            GenerationRequest(observation=text, version=version, key=(number, agent, row))
            for agent, version in enumerate(versions)
            for row, text in enumerate(texts)
        ]
        replies = asyncio.run(engine.generate_together(requests))
        for version in versions:
            base.forget(str(version))
        spent[PARTS[0]] += time.process_time() - begun
        sides = [replies[agent * rows : (agent + 1) * rows] for agent in range(AGENTS)]
        paid = np.array(joint_reward(*([reply.text for reply in side] for side in sides)))
        grouped = paid.reshape(PROMPTS, -1)
        advantages = group_advantages(grouped, np.ones_like(grouped, dtype=bool), scale=True)
        for agent, side in zip(team, sides, strict=True):
            turns = [
                Turn(
                    turn_index=0, observation="", reply="", invalid=None, reward=0.0, components={},
                    version=f"{agent.name}@0-0123456789abcdef",
                    prompt_ids=one.prompt_ids, completion_ids=one.token_ids, logprobs=one.logprobs,
                )
                for one in side
            ]  # fmt: skip
            weighed = list(zip(turns, advantages.ravel().tolist(), strict=True))
            batch = training_batch(agent.name, weighed, pad_id=0)
            assert batch.learned_RT.sum() == rows * cell["reply"]
            begun = time.process_time()
            agent.compute_gradients(batch)
            spent[PARTS[1]] += time.process_time() - begun
            agent.apply_gradients()

    reset_peak()
    update(0)  # warms up
    spent.update(dict.fromkeys(PARTS, 0.0))
    begun = time.process_time()
    for number in range(cell["updates"]):
        update(number + 1)
    seconds = time.process_time() - begun
    spent[PARTS[2]] = seconds - sum(spent.values())
    return {"seconds": seconds, "peak_mib": peak_mib(), **spent}


def serve(model: str, way: str) -> None:
    """Answer cells from standard input, as the peer's side does."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(
            json.dumps(measure(model, json.loads(line), way == OURS[1])), file=answers, flush=True
        )


def compare(options: argparse.Namespace) -> list[Row]:
    """What every way took in every cell."""
    from srl_agents.models.sources import catalog

    folder = str(catalog.resolve(options.model))
    side = str(Path(__file__).with_name("comlrl_side.py"))
    own = [sys.executable, "-m", "benchmarks.speed.magrpo", "--model", options.model, "--serve"]
    commands = {
        **{way: [*own, way] for way in OURS},
        "comlrl, LoRA": [options.peer, side, folder, "lora"],
        "comlrl, whole": [options.peer, side, folder, "whole"],
    }  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "SRL_TORCH_THREADS": "1"}
    servers = {
        way: subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            stderr=None if options.loud else subprocess.DEVNULL,
        )
        for way, command in commands.items()
        if way in options.ways
    }  # fmt: skip
    found = measured(options.json)
    sizes = ("prompt", "reply", "group")
    done = [[row[size] for size in sizes] for row in found]
    for cell in cells(options.model, options.updates, options.cells):
        if [cell[size] for size in sizes] in done:
            continue
        rounds: dict[str, list[dict[str, float]]] = {way: [] for way in servers}
        for _ in range(options.rounds):
            for way, server in servers.items():
                assert server.stdin is not None
                assert server.stdout is not None
                print(json.dumps(cell), file=server.stdin, flush=True)
                rounds[way].append(json.loads(server.stdout.readline()))
        tokens = AGENTS * PROMPTS * cell["group"] * cell["reply"] * options.updates
        row: Row = {size: cell[size] for size in sizes}
        for way, results in rounds.items():
            row[way] = {
                "ms_per_token": [1e3 * result["seconds"] / tokens for result in results],
                "peak_mib": max(result["peak_mib"] for result in results),
                "parts": {
                    part: 1e3 * statistics.median(result[part] for result in results) / tokens
                    for part in PARTS
                },
            }
        found.append(row)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(line_of(row), flush=True)
    for server in servers.values():
        server.communicate()
    return found


def measured(path: Path | None) -> list[Row]:
    """Cells that are done."""
    found = json.loads(path.read_text(encoding="utf-8")) if path and path.is_file() else []
    return [row for row in found if all(set(ways) & set(row) for ways in (OURS, PEERS))]


def median_ms(row: Row, way: str) -> float:
    """Milliseconds per trained token."""
    return float(statistics.median(row[way]["ms_per_token"]))


def faster(row: Row, ways: Sequence[str]) -> str:
    """The way with the smaller median, of those that were measured."""
    return min((way for way in ways if way in row), key=lambda way: median_ms(row, way))


def ratios(row: Row) -> list[float]:
    """Seconds of the peer's faster way to those of ours: of medians, then the least and most of a round."""
    ours, peer = faster(row, OURS), faster(row, PEERS)
    pairs = zip(row[peer]["ms_per_token"], row[ours]["ms_per_token"], strict=True)
    by_round = [theirs / own for theirs, own in pairs]
    return [median_ms(row, peer) / median_ms(row, ours), min(by_round), max(by_round)]


def line_of(row: Row) -> str:
    """One line of the table."""
    times = "".join(f" {median_ms(row, way):.2f} |" if way in row else "  |" for way in WAYS)
    ratio, low, high = ratios(row)
    memory = "".join(f" {row[faster(row, ways)]['peak_mib']:,.0f} |" for ways in (OURS, PEERS))
    sizes = f"| {row['prompt']} | {row['reply']} | {row['group']} |"
    return f"{sizes}{times} {ratio:.1f} [{low:.1f}, {high:.1f}] |{memory}"


def parts_of(row: Row) -> str:
    """Where the time of each side's faster way went, one line."""
    sizes = f"| {row['prompt']} | {row['reply']} | {row['group']} |"
    return sizes + "".join(
        f" {row[faster(row, ways)]['parts'][part]:.2f} |"
        for ways in (OURS, PEERS)
        for part in PARTS
    )


def main() -> None:
    """Print a table of all cells, and their geometric mean."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--peer", default=".venv-comlrl/bin/python")
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", nargs="*", default=[], help="such as 64/16/4; all eight if none")
    parser.add_argument(
        "--ways", nargs="+", choices=WAYS, default=WAYS, help="at least one of either side"
    )
    parser.add_argument("--loud", action="store_true")
    parser.add_argument("--json", type=Path, help="of cells; those that are there are kept")
    parser.add_argument("--serve", default="")
    options = parser.parse_args()
    if options.serve:
        serve(options.model, options.serve)
        return
    ways = " | ".join(f"{way}, ms" for way in WAYS)
    print(f"| prompt | reply | group | {ways} | ratio [rounds] | MiB, ours | MiB, comlrl |")
    print("\n".join(map(line_of, measured(options.json))))
    found = compare(options)
    mean = math.exp(statistics.fmean(math.log(ratios(row)[0]) for row in found))
    print(f"{mean:.2f} times less than comlrl, faster way to faster way (geometric mean)")
    print("\n".join(map(parts_of, found)))


if __name__ == "__main__":
    main()
