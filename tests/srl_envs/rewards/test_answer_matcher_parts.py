"""Parts of the answer matcher by themselves: free-text extraction, units, complex numbers, words."""

import cmath
import decimal
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from srl_envs.errors import ConfigError
from srl_envs.rewards import AnswerMatcher, AnswerPolicy
from srl_envs.rewards.matcher.extraction import joined_boxes, plain, prose
from srl_envs.rewards.matcher.notation.parser import parse
from srl_envs.rewards.matcher.notation.trees import show
from srl_envs.rewards.matcher.numbers import functions
from srl_envs.rewards.matcher.numbers.complex_plane import Complex, Value, apply
from srl_envs.rewards.matcher.words.quantities import Quantity, read_quantity
from srl_envs.rewards.matcher.words.spelled import read_number_word
from srl_envs.rewards.matcher.words.texts import read_date, read_names
from srl_envs.rewards.matcher.words.units import read_unit


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("\\boxed{1} and \\boxed{2}", "1, 2"),
        ("$\\boxed{(1,2)}$, $\\boxed{(3,4)}$", "(1,2), (3,4)"),
        ("\\boxed{1}\\boxed{2}", "1, 2"),
        ("\\boxed{1} papers and \\boxed{2} bins", "1, 2"),
        ("First \\boxed{5}. Then \\boxed{1} or \\boxed{2}.", "1, 2"),
        ("\\boxed{1} no no no no no \\boxed{2}", "2"),
        ("\\boxed{1}\n\nand so, after a while, \\boxed{2}", "2"),
        ("\\boxed{6}. The final answer is 7", None),
        ("no box", None),
    ],
)
def test_enumerated_boxes_are_joined(reply: str, found: str | None) -> None:
    assert joined_boxes(reply) == found


def test_a_list_of_all_candidates_is_not_any_of_them() -> None:
    matcher = AnswerMatcher(extract=["boxes", "prose"])
    reply = "It is \\boxed{6} or \\boxed{7}"
    assert [matcher.score(reply=reply, answer=str(n)).value for n in (6, 7)] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("Therefore $x \\geq 5$ is the solution.", "x \\geq 5"),
        ("So \\[ \n 9 \n \\] holds", "9"),
        ("We find $1$ and $2$.", "1, 2"),
        ("Of $12$ balls, it is $3$ percent", "3 percent"),
        ("The volume of $ABC$ is 120. I hope it is correct.", "120"),
        ("the number is not 10 which is 1,000.99€", "1,000.99€"),
        ("Answer: it grew 3 hours ago. I hope it is correct. 5 people", "3"),
        ("in plane AZYUK2A", None),
        ("x=-1", "x=-1"),
        ("written on 2024-03-05", "2024"),
    ],
)
def test_prose_finds_the_last_formula_or_number(reply: str, found: str | None) -> None:
    assert prose(reply) == found


def test_plain_reads_announcements_and_displays() -> None:
    assert plain("The final answer is $14{,}916$. I hope it is correct.") == "$14{,}916$"
    assert plain("The answer is 7.5. This follows.") == "7.5"
    assert plain("So\n\\[\n x+1\n\\]") == "\\[ x+1 \\]"
    assert plain("The answer is:\n$$\n9\n$$\nbye") == "$$ 9 $$"


@pytest.mark.parametrize(
    ("name", "dimension", "factor"),
    [
        ("km/h", "length time^-1", Fraction(5, 18)),
        ("miles per hour", "length time^-1", Fraction(44704, 100000)),
        ("N", "length mass time^-2", 1000),
        ("kg m/s^2", "length mass time^-2", 1000),
        ("square feet", "length^2", Fraction(9290304, 10**8)),
        ("cubic centimeters", "length^3", Fraction(1, 10**6)),
        ("mW", "length^2 mass time^-3", 1),
        ("MW", "length^2 mass time^-3", 10**9),
        ("dollars per hour", "money time^-1", Fraction(1, 3600)),
        ("m/m", "ratio", 1),
    ],
)
def test_units_are_products_of_powers(name: str, dimension: str, factor: Fraction) -> None:
    assert read_unit(name) == (dimension, factor)


@pytest.mark.parametrize("name", ["", "apples", "m^", "per", "/", "x" * 100, "km/", "degrees of"])
def test_what_is_no_unit(name: str) -> None:
    assert read_unit(name) is None


def test_parts_of_a_quantity_add_up() -> None:
    assert read_quantity("2 hours and 30 minutes") == Quantity("(9000)", "time", Fraction(1))
    assert read_quantity("5'11\"") == Quantity("(9017/5000)", "length", Fraction(1))  # 71 * 0.0254
    backwards = read_quantity("6 in 5 ft")
    assert backwards is None or backwards.dimension != "length"


PARTS = st.decimals(-9, 9, places=2)
NUMBERS = st.tuples(PARTS, PARTS)


def near(ours: Value, theirs: complex) -> bool:
    value = ours if isinstance(ours, Complex) else Complex(ours, Decimal(0))
    return cmath.isclose(complex(value.real, value.imaginary), theirs, rel_tol=1e-9, abs_tol=1e-9)


@given(NUMBERS, NUMBERS)
def test_complex_arithmetic_is_that_of_cmath(
    a: tuple[Decimal, Decimal], b: tuple[Decimal, Decimal]
) -> None:
    z, w = Complex(*a), Complex(*b)
    x, y = complex(*map(float, a)), complex(*map(float, b))
    with decimal.localcontext(functions.context(40)):
        assert near(apply("+", z, w), x + y)
        assert near(apply("-", z, w), x - y)
        assert near(apply("*", z, w), x * y)
        assert near(apply("+", z.real, w), x.real + y)
        assert near(apply("-", z.real, w), x.real - y)
        assume(abs(y) > 0.1)
        assert near(apply("/", z, w), x / y)
        assert near(apply("/", z.real, w), x.real / y)


@given(NUMBERS)
def test_complex_functions_are_those_of_cmath(a: tuple[Decimal, Decimal]) -> None:
    z, x = Complex(*a), complex(*map(float, a))
    assume(abs(x) > 0.1)
    x = complex(x.real, x.imag + 0.0)  # +0, on which side of the cut the principal value lies
    with decimal.localcontext(functions.context(40)):
        assert near(apply("sqrt", z), cmath.sqrt(x))
        assert near(apply("exp", z), cmath.exp(x))
        assert near(apply("ln", z), cmath.log(x))
        assert near(apply("sin", z), cmath.sin(x))
        assert near(apply("cos", z), cmath.cos(x))
        assert near(apply("^", z, Decimal(3)), x**3)
        assert near(apply("^", z, Decimal(-2)), x**-2)
        assert near(apply("^", z, Decimal("0.5")), cmath.sqrt(x))
        assert near(apply("abs", z), abs(x))


@given(st.integers(0, 999_999))
def test_spelled_numbers_are_read(number: int) -> None:
    assert read_number_word(spelled(number)) == number
    assert read_number_word(spelled(number).replace(" and ", " ")) == number


SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spelled(number: int) -> str:
    if number < 20:
        return SMALL[number]
    if number < 100:
        return TENS[number // 10 - 2] + (f"-{SMALL[number % 10]}" if number % 10 else "")
    if number < 1000:
        rest = f" and {spelled(number % 100)}" if number % 100 else ""
        return f"{SMALL[number // 100]} hundred{rest}"
    rest = f" {spelled(number % 1000)}" if number % 1000 else ""
    return f"{spelled(number // 1000)} thousand{rest}"


@pytest.mark.parametrize(
    "text", ["hundred", "two and", "twenty twelve", "one thousand million", "and"]
)
def test_what_is_no_spelled_number(text: str) -> None:
    assert read_number_word(text) is None


def test_dates_and_names() -> None:
    assert read_date("Tuesday, 5th of March 2024") == (2024, 3, 5)
    assert read_date("03/05/2024") == ("as written", 3, 5, 2024)
    assert read_date("13/05/2024") == read_date("05/13/2024") == (2024, 5, 13)
    assert read_date("31/13/2024") is None
    assert read_names("Alice, Bob and Carol") == (["alice", "bob", "carol"], "and")


def test_a_tree_is_shown_with_all_its_brackets() -> None:
    assert show(parse("-x^2+\\frac{1}{2}")) == "(neg((x ^ 2)) + (1 / 2))"
    assert show(parse("(1,2] \\cup \\{3\\}")) == "(1, 2] \\cup \\{3\\}"
    assert show(parse("1<x\\le 2")) == "1 < x <= 2"


def test_explain_tells_why_a_side_is_unreadable() -> None:
    explained = AnswerMatcher().explain(reply="\\boxed{3 + }", answer="7 cm")
    assert explained.answer == "7 * 1/100 [length]"
    assert explained.given.startswith("unreadable")


@pytest.mark.parametrize("figures", [0, -1])
def test_impossible_significant_figures_are_refused(figures: int) -> None:
    with pytest.raises(ConfigError, match="use 1 or more"):
        AnswerPolicy(significant_figures=figures)
