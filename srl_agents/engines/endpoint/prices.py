"""What providers charge, from a file with a date and the source of each price; a missing price is unknown.

currency: USD
date: 2026-11-22
source: https://example.com/pricing
prices:
  example:                      # a provider of the providers file
    thinker-1: {input: 1.1, cached_input: 0.275, output: 4.4}    # per million tokens
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from pathlib import Path

from srl_agents.records import Served
from srl_agents.yaml_files import read_yaml
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build

MOST_PRICE = 1e6
"""Largest price per million tokens that is accepted."""
_MILLION = 1_000_000
COST_DIGITS = 12
"""Digits of a cost behind the point."""
_CURRENCY = re.compile("[A-Z]{3}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenPrices:
    """Prices of one model, per million tokens."""

    input: float
    """Price of the prompt's tokens."""
    output: float
    """Price of the reply's tokens, thoughts included."""
    cached_input: float | None = None
    """Price of the prompt's tokens that the provider had cached; absent: as `input`."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MOST_PRICE:
                raise ConfigError(f"{name}={value}: use 0 to {MOST_PRICE:g} per million tokens.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What a model costs, and the source of that."""

    tokens: TokenPrices
    currency: str
    """Currency of the prices, three letters."""
    date: str
    """Date on which the source gave the prices."""
    source: str

    def __post_init__(self) -> None:
        if not _CURRENCY.fullmatch(self.currency):
            raise ConfigError(f"currency={self.currency!r}: use three letters, such as USD.")
        if not is_date(self.date):
            raise ConfigError(f"date={self.date!r}: use a day, such as 2026-11-22.")
        if not self.source or not self.source.isprintable() or len(self.source) > 200:
            raise ConfigError(f"source={self.source!r}: say in one line where the prices are from.")

    def cost(self, served: Served) -> float | None:
        """What one reply costs; None where the endpoint did not count its tokens."""
        prompt, completion = served.prompt_tokens, served.completion_tokens
        if prompt is None or completion is None:
            return None
        cached = min(served.cached_tokens or 0, prompt)
        tokens = self.tokens
        again = tokens.input if tokens.cached_input is None else tokens.cached_input
        whole = (prompt - cached) * tokens.input + cached * again + completion * tokens.output
        return round(float(whole) / _MILLION, COST_DIGITS)


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceList:
    """The content of a price file."""

    date: str
    source: str
    prices: dict[str, dict[str, TokenPrices]] = field(default_factory=dict)
    """Provider -> model, as it is asked for -> prices."""
    currency: str = "USD"

    def __post_init__(self) -> None:
        for models in self.prices.values():
            for tokens in models.values():
                self._price(tokens)

    def price(self, provider: str, model: str) -> Price | None:
        """Price of a model; None where the file does not have it."""
        tokens = self.prices.get(provider, {}).get(model)
        return None if tokens is None else self._price(tokens)

    def _price(self, tokens: TokenPrices) -> Price:
        return Price(tokens=tokens, currency=self.currency, date=self.date, source=self.source)


def read_prices(path: Path) -> PriceList:
    """Read a price file.

    Raises:
        ConfigError: it cannot be read, or a value is impossible; names the place.
    """
    data = read_yaml(path)
    if isinstance(data.get("date"), datetime.date):  # YAML has a kind of its own for days
        data["date"] = data["date"].isoformat()
    return build(PriceList, data, str(path))


def is_date(text: str) -> bool:
    """Whether this is a day as ISO 8601 writes it."""
    try:
        return bool(_DATE.fullmatch(text)) and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False
