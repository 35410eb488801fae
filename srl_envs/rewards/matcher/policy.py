"""What counts as the same answer where reasonable people differ."""

from __future__ import annotations

from dataclasses import dataclass

from srl_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerPolicy:
    """Flags of the answer matcher; the defaults are exact about numbers, lenient about dress.

    Raises:
        ConfigError: digits are below 1, or the tolerance is not from 0 to below 1.
    """

    unit_missing_ok: bool = True
    """A number without the unit that the other side has: ``5`` for ``5 cm``."""
    convert_units: bool = True
    """``1500 mL`` for ``1.5 L``."""
    percent_equals_number: bool = False
    """``25`` for ``25%``, beside ``0.25``, which always counts."""
    ratio_equals_number: bool = False
    """``3:4`` for ``0.75``. ``3/4`` for the ratio ``3:4`` always counts."""
    approximation_sign_ok: bool = True
    r"""``\approx 42``, ``≈42`` and ``~42`` for ``42``: only the sign. Words such as ``about`` never
    count. Where the reference has the sign it always counts."""
    group_words_ok: bool = False
    """``42 pairs`` for ``42``, though it is 84 things."""
    order_matters: bool = False
    """Bare lists such as ``1, 2`` must come in order; tuples always must."""
    unevaluated_ok: bool = False
    """``7 * 8`` for the number ``56``. Accepting it rewards restating the question; ``5!``,
    ``10^3`` and ``3 * 10^8`` are ways of writing one number and always count."""
    rounded_digits: int | None = 8
    """Accept a correctly rounded decimal for an irrational or non-terminating reference from this
    many significant digits on; None asks for the exact form."""
    relative_tolerance: float = 0.0
    """Largest accepted relative error of a number."""
    significant_figures: int | None = None
    """Accept a number within half a unit of this significant digit of the reference: with 3,
    ``0.333`` for ``1/3`` and ``1230`` for ``1234``. None, the default, accepts no such error."""
    words_as_numbers: bool = True
    """``seven`` for ``7``."""
    comma_decimal: bool = False
    """``2,5`` for ``2.5``."""
    ignore_articles: bool = True
    """``cat`` for ``the cat``."""
    any_constant_name: bool = True
    """A free constant ``C`` may be written ``c``."""
    no_solution_is_empty_set: bool = True
    r"""``\emptyset`` for ``no solution``, and ``no solution`` for ``\emptyset``."""
    repeats_count: bool = True
    r"""A reference that writes an item twice means it: ``\{1,1,2\}`` is wrong for ``\{1,2,2\}``, and
    ``\{1,2\}`` too. False compares sets only by their members, so that all three are the same. A
    reference without repeats accepts them either way."""
    polar_form_ok: bool = True
    r"""``e^{i\pi}`` and ``\cos\pi+i\sin\pi`` for ``-1``: polar forms are ways of writing one number."""

    def __post_init__(self) -> None:
        if self.rounded_digits is not None and self.rounded_digits < 1:
            raise ConfigError(f"rounded_digits={self.rounded_digits}: use 1 or more, or None.")
        if self.significant_figures is not None and self.significant_figures < 1:
            raise ConfigError(
                f"significant_figures={self.significant_figures}: use 1 or more, or None."
            )
        if not 0.0 <= self.relative_tolerance < 1.0:
            raise ConfigError(
                f"relative_tolerance={self.relative_tolerance}: use a number from 0 to below 1."
            )

    @property
    def tolerant(self) -> bool:
        """Whether any error of a number is accepted."""
        return bool(self.relative_tolerance) or self.significant_figures is not None
