"""Where a slower tier pays: time to fetch a prefix against time to read it anew, at the games' lengths.

    python -m benchmarks.caching.tiers [--json FILE]

Lengths are those of the suite's prompts (benchmarks/results/prompt_tokens.json, SmolLM2's tokenizer) and
some longer ones. A tier *pays* where fetching is faster than computing; ``break-even`` is the chance of
return from which writing and fetching together cost the link less time than computing costs the device.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.caching.simulation.hardware import (
    DEVICES,
    LINKS,
    SHAPES,
    TIER_RATES,
    device,
    tier_worth,
)

PROMPTS = Path(__file__).parents[1] / "results/prompt_tokens.json"
LATENCY_S = {"host": 20e-6, "disk": 200e-6}
"""Before the first byte comes."""


def lengths() -> dict[str, int]:
    """Named prefix lengths, in tokens."""
    counts = json.loads(PROMPTS.read_text())["tokens"].values()
    games = [count["smollm2-135m"] for count in counts]
    quantiles = {"shortest": 0.0, "median": 0.5, "longest": 1.0}
    found = {f"games, {name}": int(np.quantile(games, q)) for name, q in quantiles.items()}
    return {**found, "4k": 4096, "32k": 32768}


def table(model: str, on: str) -> list[dict[str, Any]]:
    """One row per source and length."""
    sources = {name: (TIER_RATES[name], LATENCY_S[name]) for name in ("host", "disk")}
    sources |= {name: (link.bytes_per_s, link.latency_s) for name, link in LINKS.items()}
    rows = []
    for source, (rate, latency) in sources.items():
        for label, tokens in lengths().items():
            worth = tier_worth(SHAPES[model], device(on), rate, tokens, latency)
            chance = worth.break_even_chance
            rows.append(
                {
                    "model": model, "device": on, "source": source, "prefix": label, "tokens": tokens,
                    "fetch_ms": 1e3 * worth.fetch_s, "compute_ms": 1e3 * worth.recompute_s,
                    "pays": worth.pays, "break_even": chance if math.isfinite(chance) else None,
                }
            )  # fmt: skip
    return rows


def main() -> None:
    """Print and save the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [row for model in SHAPES for on in DEVICES for row in table(model, on)]
    for row in rows:
        chance = "never" if row["break_even"] is None else f"{row['break_even']:.2f}"
        print(
            f"{row['model']:4} {row['device']:5} {row['source']:5} {row['prefix']:16} {row['tokens']:6}"
            f"  fetch {row['fetch_ms']:8.2f} ms  compute {row['compute_ms']:8.2f} ms  break-even {chance}"
        )
    if options.json:
        found = {"command": "python -m benchmarks.caching.tiers", "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
