"""`srl plan parallel`: tensor, pipeline and data parallelism for models beyond one card."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Annotated

import tyro

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import DeviceOptions, JSONOptions
from srl_agents.memory.architecture import shipped
from srl_agents.memory.devices import target_of
from srl_agents.memory.parallel_sizing import PLACEMENTS, Learns, Sizing, size_up
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError, nearest

DESCRIPTION = f"""Size RLHF of a large model on many cards, for each placement of its four roles.

Every role has the model's size; rows have 4,096 tokens. The command prints what would fit; the runs
themselves need a cluster's own software. Models: {", ".join(shipped())}.

Examples:
  srl plan parallel
  srl plan parallel --models qwen2.5-32b --cards 16 --device a100-80gb
"""

DEVICE = "h100-80gb"
"""Planned for where no device is named."""


@dataclass(frozen=True)
class ParallelOptions(DeviceOptions, JSONOptions):
    """Model, devices and batch to plan for."""

    models: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = (
        "llama-3.1-70b",
        "llama-3.1-405b",
    )
    """Names of shipped architectures."""
    cards: int = 64
    """In all, of one kind."""
    learn: Learns = "full"
    """All weights of policy and value model, or adapters of them."""


def main(argv: list[str]) -> int:
    """Exit code: 0 each model fits with some placement, 1 one of them does not."""
    options = read_options(
        ParallelOptions, command="srl plan parallel", description=DESCRIPTION, argv=argv
    )
    if options.cards < 8:
        raise ConfigError(
            f"cards={options.cards}: use 8 or more; `srl plan RECIPE` plans a single one."
        )
    from srl_agents.memory.architecture import published

    target, found = target_of(options.device or DEVICE), []
    for name in options.models:
        model = published(name)
        if model is None:
            known = shipped()
            raise ConfigError(
                f"--models: no architecture {name!r}.{nearest(name, known)} There are: {', '.join(known)}."
            )
        found += [
            size_up(model, placement, options.cards, target, options.learn)
            for placement in PLACEMENTS
        ]
    if options.json:
        print(plain_json([asdict(sizing) | {"fits": sizing.fits} for sizing in found], indent=2))
    else:
        _show(found, options)
    by_model = [[s.fits for s in found if s.model.startswith(name)] for name in options.models]
    return 0 if all(any(fits) for fits in by_model) else 1


def _show(found: list[Sizing], options: ParallelOptions) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{options.cards} cards of {options.device or DEVICE}, GB per card")
    for name in (
        "model",
        "placement",
        "learns with",
        "GB",
        "writes with",
        "GB",
        "moved in",
        "cards",
    ):
        table.add_column(name, overflow="fold")
    for sizing in found:
        table.add_row(
            sizing.model,
            sizing.placement,
            str(sizing.training or "does not fit"),
            _total(sizing.training_bytes),
            str(sizing.writing or "does not fit"),
            _total(sizing.writing_bytes),
            "-" if math.isinf(sizing.transfer_s) else f"{sizing.transfer_s:.2f} s",
            str(sizing.cards_needed or "more"),
        )
    console = Console()
    console.print(table)
    for sizing in found:
        console.print(
            f"[bold]{sizing.model}, {sizing.placement}[/bold]: {sizing.note}", highlight=False
        )
        for work, parts in (("learning", sizing.training_bytes), ("writing", sizing.writing_bytes)):
            if parts:
                console.print(f"  {work}: {_each(parts)}", highlight=False)


def _total(parts: dict[str, float]) -> str:
    return f"{sum(parts.values()) / 1e9:.0f}" if parts else "-"


def _each(parts: dict[str, float]) -> str:
    return ", ".join(f"{name} {size / 1e9:.0f}" for name, size in parts.items())
