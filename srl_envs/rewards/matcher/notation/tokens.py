"""Cuts an answer in unified notation into tokens."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from srl_envs.rewards.matcher.notation.naming import ACCENTS, FIGURES, marked_name
from srl_envs.rewards.matcher.notation.number import MAX_EXPONENT, MAX_NUMBER_CHARS
from srl_envs.rewards.matcher.notation.trees import Num, Unreadable
from srl_envs.rewards.matcher.words.hedges import takes_back

MAX_TOKENS = 400

FUNCTIONS = frozenset(
    ("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "asin", "acos", "atan",
     "sinh", "cosh", "tanh", "ln", "lg", "log", "exp", "sqrt", "abs", "floor", "ceil", "min", "max",
     "gcd", "lcm", "cis")
)  # fmt: skip
_GREEK = frozenset(
    ("alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "theta", "lambda", "mu", "nu",
     "rho", "sigma", "tau", "phi", "varphi", "psi", "omega", "xi", "eta", "zeta", "kappa", "chi",
     "Delta", "Omega", "Gamma", "Lambda", "Phi", "Psi", "Sigma", "Theta", "Xi", "ell")
)  # fmt: skip
_CONSTANTS = {"pi": "pi", "Pi": "pi", "inf": "inf", "infty": "inf", "infinity": "inf", "oo": "inf"}


class Token(NamedTuple):
    """One lexical unit."""

    kind: str
    """``num``, ``sym``, ``const``, ``fn``, ``op`` (signs, brackets, commands, ``or``) or ``end``."""
    text: str


_TOKEN = re.compile(
    r"\s*(?:(?P<num>(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?P<exp>[eE][+-]?[0-9]{1,6}(?![\w.]))?"
    r"|\\(?P<env>begin|end)\{(?P<name>[A-Za-z]{1,12})\}(?:\{[lcr|\s]{1,40}\})?"
    rf"|\\(?P<accent>{'|'.join(ACCENTS)})(?![A-Za-z])\s*"
    r"(?:\{\s*(?P<marked>\\[A-Za-z]+|[A-Za-z]{1,4})(?P<below>_[0-9A-Za-z]|_\{[^{}]{1,8}\})?\s*\}"
    r"|(?P<bare>\\[A-Za-z]+|[A-Za-z]))"
    rf"|\\(?P<figure>{'|'.join(FIGURES)})(?![A-Za-z])\s*\{{?\s*"
    r"(?P<points>[A-Z]{1,4}(?![A-Za-z])|\\[a-z]+)\s*\}?"
    r"|(?P<cmd>\\[A-Za-z]+|\\[{}|\\])|(?P<op>\*\*|<=|>=|!=|==|[-+*/^_!'()\[\]{}|=<>,;:%&])"
    r"|(?P<word>[A-Za-z]+)|(?P<bad>\S))"
)


def tokenize(text: str) -> list[Token]:
    """Tokens of ``text``; inside brackets a comma separates, outside it may group thousands."""
    tokens: list[Token] = []
    depth = position = 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or found["bad"]:
            raise Unreadable(f"the character {text[position]!r}")
        position = found.end()
        if found["num"] and depth and "," in found["num"]:
            position = found.start("num") + found["num"].index(",")
            tokens.append(Token("num", text[found.start("num") : position]))
        elif found["word"] == "Pr" and text.startswith("(", position):
            tokens.append(Token("sym", "P"))
        elif found["word"] and [token.text for token in tokens[-2:]] == ["_", "{"]:
            tokens.append(Token("sym", found["word"]))
        else:
            tokens += _lexed(found)
        depth += (tokens[-1].text in ("(", "[", "\\{")) - (tokens[-1].text in (")", "]", "\\}"))
        if len(tokens) > MAX_TOKENS:
            raise Unreadable("too many tokens")
    return tokens


def _lexed(found: re.Match[str]) -> list[Token]:
    if found["num"]:
        return [Token("num", found["num"] + (found["exp"] or ""))]
    if found["env"]:
        if not found["name"].endswith("matrix") and found["name"] != "array":
            raise Unreadable(f"the environment {found['name']!r}")
        bars = "|" if found["name"] == "vmatrix" and found["env"] == "begin" else ""
        return [Token("op", f"\\{found['env']}{bars}")]
    if found["accent"] or found["figure"]:
        return [Token("sym", _marked(found))]
    if found["op"]:
        return [Token("op", "^" if found["op"] == "**" else found["op"])]
    name = found["cmd"][1:] if found["cmd"] else found["word"]
    if name in FUNCTIONS:
        return [Token("fn", name)]
    if name in _CONSTANTS:
        return [Token("const", _CONSTANTS[name])]
    if name == "Pr" and found["cmd"]:
        return [Token("sym", "P")]
    if found["cmd"]:
        return [Token("sym", name) if name in _GREEK else Token("op", found["cmd"])]
    if name in ("or", "and"):
        return [Token("op", name)]
    if len(name) > 3 or takes_back(name.lower()):  # ``not`` is not a product of letters
        raise Unreadable(f"the word {name!r}")
    return [Token("const" if c == "e" else "sym", c) for c in name]


def _marked(found: re.Match[str]) -> str:
    r"""The name of a letter with a mark, or of a figure: ``\vec{a_1}``, ``\angle ABC``."""
    letters = (found["marked"] or found["bare"] or found["points"]).removeprefix("\\")
    known = letters.isalpha() and (len(letters) == 1 or letters.isupper())
    if not known and letters not in (*_GREEK, "imath", "jmath"):
        raise Unreadable(f"a mark on {letters!r}")
    name = marked_name(found["accent"] or found["figure"], letters)
    return f"{name}_{found['below'].strip('_{} ')}" if found["below"] else name


def written_number(text: str) -> Num:
    """The `Num` of a number token."""
    digits, _, exponent = text.lower().replace(",", "").partition("e")
    if len(digits) > MAX_NUMBER_CHARS or abs(int(exponent or 0)) > MAX_EXPONENT:
        raise Unreadable("a number of this size")
    value = Fraction(digits.rstrip(".")) * Fraction(10) ** int(exponent or 0)
    if "." not in digits:
        return Num(value)
    places = len(digits.partition(".")[2]) - int(exponent or 0)
    return Num(value, places, len(digits.replace(".", "").lstrip("0")))
