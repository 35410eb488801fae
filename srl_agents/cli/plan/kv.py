"""`srl plan kv --trace FILE`: replay requests on described nodes, caches and links."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from srl_agents.caching.objectives import Objectives
from srl_agents.caching.placement import PATIENCE
from srl_agents.caching.simulation import hardware
from srl_agents.caching.simulation.cluster import By, Cluster, simulate
from srl_agents.caching.simulation.hardware import Tier
from srl_agents.caching.simulation.replay import POLICIES, Known
from srl_agents.caching.simulation.routing import Routing
from srl_agents.caching.simulation.summary import first_token_times, report, token_gaps
from srl_agents.caching.simulation.traces import Trace, read_trace, with_sessions
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import DeviceOptions, JSONOptions, PlotOptions
from srl_agents.cli.plan.quantile_figure import Curve, quantile_figure
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError, nearest

DESCRIPTION = """Replay a trace of requests on described nodes, caches and links.

A trace has one JSON object per line (.jsonl or .jsonl.gz): timestamp (ms), input_length, output_length
(tokens) and hash_ids (one per block of the prompt), as Mooncake publishes them. Without --tiers
the cache has no limit. The hit rate of the oracle, which reads future requests, stands
beside that of the policy. Times come from rooflines: use them to compare, not as forecasts.

Examples:
  srl plan kv --trace requests.jsonl.gz
  srl plan kv --trace requests.jsonl.gz --tiers tokens=3000000 --policy learned --json
  srl plan kv --trace requests.jsonl --nodes 8 --tiers device=40GB host=512GB --policy learned
  srl plan kv --trace requests.jsonl --nodes 64 --prefill-nodes 40 --link rdma --speed 16
  srl plan kv --trace requests.jsonl --nodes 4 --fail 2@600 --plot times.svg
"""

_TOKENS = "tokens="
"""Begins a tier that is sized in tokens."""
MOST_CAPACITY_TOKENS = 10**15
DEVICE = "h100"
"""Replayed on where no device is named."""
MFU = 0.5
"""Share of the device's peak that reading prompts reaches; prefill chunks are as large as 60 % of it need."""


@dataclass(frozen=True)
class KVOptions(DeviceOptions, PlotOptions, JSONOptions):
    """What is replayed, and on what."""

    trace: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """Requests, .jsonl or .jsonl.gz."""
    nodes: int = 1
    """Instances, each on one device."""
    prefill_nodes: int | None = None
    """So many of them only read prompts and hand them over to the others; without, every node does both."""
    tiers: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=SIZE")] = ()
    """Caches per node: device=40GB, host=512GB, disk=4TB, or with a rate: disk=4TB@6GB/s. Or one of
    tokens=N, at no cost to read and beside the device's memory."""
    policy: str = "learned"
    """lru, segmented-lru, decayed-lfu, s3-fifo, learned, or oracle (one node)."""
    routing: Routing = "affinity"
    """Which node reads a prompt."""
    known: Known = "nothing"
    """What the policy learns of sessions: nothing, sessions, or also when they end. Traces without sessions
    have them derived from their prefixes."""
    link: str = "none"
    """Between nodes: rdma, tcp, none, or a rate such as 12GB/s."""
    model: str = "7b"
    """7b, 14b (Qwen2.5), or a model's config.json."""
    speed: float = 1.0
    """Replay arrivals so many times faster."""
    fail: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NODE@SECOND")] = ()
    """Nodes that die, and when."""
    ttft_s: float = 2.0
    """Objective: seconds to the first token."""
    tbt_s: float = 0.1
    """Objective: seconds between tokens."""
    admission: By = "memory"
    """objectives: prompts that can still hold --ttft-s are read first, and none that breaks --tbt-s."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl plan kv --help`."""
    options = read_options(KVOptions, command="srl plan kv", description=DESCRIPTION, argv=argv)
    cluster = cluster_of(options)
    trace = read_trace(options.trace)
    if (_capacity(options.tiers) or math.inf) < trace.tokens_per_block:
        raise ConfigError(
            f"tiers={options.tiers[0]!r}: expected at least one block of the trace, "
            f"{trace.tokens_per_block} tokens."
        )
    if cluster.known != "nothing" and all(r.session is None for r in trace.requests):
        trace = with_sessions(trace)
    with progress_bar(len(trace.requests)) as advance:
        outcome = simulate(trace, cluster, advance)
    numbers = {"trace": str(options.trace), **report(trace, cluster, outcome)}
    if options.plot is not None:
        times = first_token_times(outcome)
        gaps, tokens = token_gaps(outcome)
        figure = quantile_figure(
            Curve("seconds to the first token", times, times * 0 + 1),
            Curve("seconds between tokens", gaps, tokens),
        )
        try:
            options.plot.write_text(figure, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"plot={options.plot}: cannot be written ({error}).") from error
    if options.json:
        print(plain_json(numbers, indent=2))
    else:
        show(numbers, trace)
    return 0


def cluster_of(options: KVOptions) -> Cluster:
    """The described hardware, checked before the trace is read."""
    if options.policy not in POLICIES:
        raise ConfigError(
            f"policy={options.policy!r}: no such policy.{nearest(options.policy, POLICIES)} "
            f"There are {', '.join(POLICIES)}."
        )
    if options.plot is not None and options.plot.suffix != ".svg":
        raise ConfigError(f"plot={options.plot}: expected a file that ends in .svg.")
    if options.ttft_s <= 0 or options.tbt_s <= 0:
        raise ConfigError("ttft_s and tbt_s: expected seconds above 0.")
    shape = hardware.model_shape(options.model)
    return Cluster(
        shape=shape,
        device=hardware.device(options.device or DEVICE, MFU),
        tiers=_tiers(options, shape.kv_bytes_per_token),
        policy=options.policy,
        nodes=options.nodes,
        prefill_nodes=options.prefill_nodes,
        link=hardware.parse_link(options.link),
        routing=options.routing,
        patience=PATIENCE,
        known=options.known,
        minimum_mfu=0.6 * MFU,
        speed=options.speed,
        objectives=Objectives(first_token_s=options.ttft_s, between_tokens_s=options.tbt_s),
        admission=options.admission,
        failures=tuple(map(_failure, options.fail)),
    )


def _tiers(options: KVOptions, bytes_per_token: float) -> tuple[Tier, ...]:
    capacity = _capacity(options.tiers)
    if capacity is None:
        return hardware.parse_tiers(options.tiers) or (Tier("unlimited", math.inf, math.inf),)
    return (Tier("capacity", capacity * bytes_per_token, math.inf),)


def _capacity(tiers: tuple[str, ...]) -> int | None:
    """Tokens of the only tier where it is ``tokens=N``; None where no tier is."""
    if not any(text.startswith(_TOKENS) for text in tiers):
        return None
    if len(tiers) > 1:
        raise ConfigError(f"tiers={' '.join(tiers)}: {_TOKENS}N is the only cache of a node.")
    number = tiers[0].removeprefix(_TOKENS)
    fits = number.isascii() and number.isdigit() and len(number) <= len(str(MOST_CAPACITY_TOKENS))
    if not fits or not 1 <= int(number) <= MOST_CAPACITY_TOKENS:
        raise ConfigError(f"tiers={tiers[0]!s:.40}: expected 1 to {MOST_CAPACITY_TOKENS} tokens.")
    return int(number)


def _failure(text: str) -> tuple[int, float]:
    node, at, second = text.partition("@")
    try:
        if not at:
            raise ValueError
        return int(node), float(second)
    except ValueError:
        raise ConfigError(f"fail={text!r}: expected NODE@SECOND, such as 2@600.") from None


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal's standard error; the function takes the number of the request that arrived."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("replay", total=total)

        def advance(number: int) -> None:
            if number % 64 == 0 or number + 1 == total:
                bar.update(task, completed=number + 1)

        yield advance


def show(numbers: dict[str, Any], trace: Trace) -> None:
    """Print the tables."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    hits = Table(
        title=f"{numbers['requests']} requests in {trace.seconds:.0f} s, hit rate by source"
    )
    for name in (*numbers["hit_rate_by_source"], "together", "oracle", "without limit"):
        hits.add_column(name, justify="right")
    rates = (*numbers["hit_rate_by_source"].values(), numbers["hit_rate"], numbers["hit_rate_oracle"],
             numbers["hit_rate_possible"])  # fmt: skip
    hits.add_row(*(f"{rate:.3f}" for rate in rates))
    console.print(hits)
    times = Table(title="times")
    for name in ("", "p50", "p99", "objective", "held"):
        times.add_column(name, justify="right")
    for label, key in (("first token, s", "ttft"), ("between tokens, ms", "tbt")):
        unit = 1e3 if key == "tbt" else 1.0
        quantiles, objective = numbers[f"{key}_s"], numbers["objectives"][f"{key}_s"]
        cells = (quantiles["p50"], quantiles["p99"], objective)
        written = ("-" if math.isnan(c) else f"{c * unit:.3g}" for c in cells)  # no second token
        times.add_row(label, *written, f"{numbers[f'{key}_held']:.1%}")
    console.print(times)
    _show_rates(numbers)


def _show_rates(numbers: dict[str, Any]) -> None:
    print(
        f"{numbers['requests_per_s']:.2f} requests/s, {numbers['prompt_tokens_per_s']:,.0f} prompt and "
        f"{numbers['reply_tokens_per_s']:,.0f} reply tokens/s; reading prompts takes "
        f"{numbers['prefill_share_of_time']:.0%} of the nodes' time at {numbers['prefill_mfu']:.0%} MFU"
    )
    for name, moved in numbers["bytes"].items():
        parts = (
            f"{what.replace('_', ' ')} {count / 1e9:,.0f} GB"
            for what, count in moved.items()
            if what != "transfers"
        )
        print(f"{name}: {', '.join(parts)}")
    if numbers["restarted"]:
        print(f"{numbers['restarted']} requests were started again after a node died")
