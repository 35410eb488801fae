r"""Brings the many ways of writing one thing to one notation, before anything is parsed.

Wrappers (``$...$``, ``\text{...}``, bold, quotes) go; Unicode mathematics becomes LaTeX; LaTeX
synonyms become one command. All steps are linear in the text.
"""

from __future__ import annotations

import re
import unicodedata

from srl_envs.rewards.matcher.notation.naming import figure_in_words
from srl_envs.rewards.matcher.notation.number import plain_characters
from srl_envs.rewards.matcher.notation.plain_tex import as_latex

MAX_ANSWER_CHARS = 2000
"""Longer answers are refused before any work is done on them."""

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n")
_SPACES = (
    "\\,", "\\;", "\\:", "\\ ", "~", "\\quad", "\\qquad", "\\thinspace", "\\enspace",
    "\\displaystyle", "\\textstyle", "\\bigl", "\\bigr", "\\Bigl", "\\Bigr", "\\big", "\\Big",
    "\\left", "\\right", "\\limits", "\u2009", "\u200a", "\u2003", "\u2002", "\u3000",
)  # fmt: skip


def _vulgar(sign: str) -> str:
    """``⅜`` as a fraction in LaTeX."""
    top, _, bottom = unicodedata.normalize("NFKC", sign).partition("⁄")
    return f"\\frac{{{top}}}{{{bottom}}}"


_REWRITES = (
    dict.fromkeys(_SPACES, " ")
    | {"\\!": ""}
    | {
        "{,}": ",", "\\%": "%", "\\$": "$", "\\dfrac": "\\frac", "\\tfrac": "\\frac",
        "\\cfrac": "\\frac", "\\leq": "\\le", "\\leqslant": "\\le", "\\geq": "\\ge",
        "\\geqslant": "\\ge", "\\neq": "\\ne", "\\lt": "<", "\\gt": ">", "\\varnothing":
        "\\emptyset", "\\lbrace": "\\{", "\\rbrace": "\\}", "\\degree": "^\\circ ", "\\lbrack": "[",
        "\\rbrack": "]", "\\lparen": "(", "\\rparen": ")", "\\cdotp": "*", "\\cdot": "*",
        "\\times": "*", "\\ast": "*", "\\div": "/", "\\dots": "...", "\\ldots": "...",
        "\\land": " and ", "\\lor": " or ", "\\tbinom": "\\binom", "\\dbinom": "\\binom",
        "\\colon": ":", "\\vert": "|", "\\lvert": "|", "\\rvert": "|", "\\|": "|",
        "\\lVert": "|", "\\rVert": "|", "\\Vert": "|", "‖": "|", "\\mid": "|",
        "\\langle": "(", "\\rangle": ")", "⟨": "(", "⟩": ")", "\\backslash": "\\setminus",
        "\\infin": "\\infty", "\\bmod": "\\mod", "\\pmod": "\\mod", "\\euro": "€",
        "×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "∕": "/", "π": "\\pi ", "∞": "\\infty ",
        "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "⩽": "\\le ", "⩾": "\\ge ", "√": "\\sqrt ",
        "∪": "\\cup ", "∩": "\\cap ", "∅": "\\emptyset ",
        "⌀": "\\emptyset ", "°": "^\\circ ", "º": "^\\circ ",
        "±": "\\pm ", "∓": "\\mp ", "∈": "\\in ", "ℝ": "\\mathbb{R}", "≈": "\\approx ",
        "∑": "\\sum ", "∏": "\\prod ", "→": "\\to ", "’": "'", "‘": "'", "“": '"', "”": '"', "…": "...",
        "∠": "\\angle ", "∡": "\\angle ", "\\measuredangle": "\\angle", "△": "\\triangle ",
        "⊿": "\\triangle ", "\\prime": "'", "′": "'", "″": "\"", "α": "\\alpha ",
        "β": "\\beta ", "γ": "\\gamma ", "δ": "\\delta ", "θ": "\\theta ", "λ": "\\lambda ",
        "μ": "\\mu ", "σ": "\\sigma ", "φ": "\\phi ", "ω": "\\omega ", "ℓ": "\\ell ",
    }
    | {sign: _vulgar(sign) for sign in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
)  # fmt: skip
_TILDE = re.compile(r"(?:^|(?<=[=:(]))(\s*)~(?=[^A-Za-z~]*[0-9A-Za-z\\])")
_PRICE_ABOUT = re.compile(r"([$€£])~(?=[0-9.])")
_STRUCK_OUT = re.compile(r"~~([^~]+)~~")
_PIECE = re.compile(
    r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ]+|\\q?quad|\\(?:[A-Za-z]+|.)|\{,\}|~"
    r"|[\u0370-\u03ff\u1f00-\u1fff]{2,}|[^\x00-\x7f]",
    re.DOTALL,
)
_GREEK_ACCENT = re.compile(r"[\u0386\u0388-\u0390\u03aa-\u03b0\u03ca-\u03ce\u1f00-\u1fff]")
_UPRIGHT = re.compile(
    r"\\(?:text|textnormal|textbf|textit|textrm|textsf|texttt|textup|mathrm|mathtt|mathbf|mathit"
    r"|mathsf|mbox|hbox|operatorname|boldsymbol|bold|underline|emph|bf|rm)\s?\*?\s?\{([^{}]*)\}"
)
_VECTOR = re.compile(r"\\(?:vec|overrightarrow|hat|widehat)(?![A-Za-z])")
_CROSS = re.compile(r"\\times(?![A-Za-z])|×")
_EXPECTED = re.compile(r"(?<![A-Za-z])(E|Var)\[([^\[\]]{1,60})\]")
_PRIMES = re.compile(r"\s?\^\s?(?:\{\s?((?:\\prime\s?)+)\}|(\\prime)(?![A-Za-z]))")
_MEASURE = re.compile(r"(?<![A-Za-z])m\s?(?=\\angle|∠)")
_LETTER_TRIANGLE = re.compile(r"(?:\\Delta|Δ|∆)\s?(?=[A-Z]{3}(?![A-Za-z]))")
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202c\u2060\u2061\u2066-\u2069\ufe00-\ufe0f\ufeff]+"
)
_BESIDE_DIGIT = re.compile(r"[\d.,]")
_ESCAPED_TWICE = re.compile(
    r"\\\\(?=(?:[dtc]?frac|sqrt|left|right|boxed|text|pi|cdot|times|infty|le|leq|ge|geq|ne|neq|cup"
    r"|pm|in|circ)(?![A-Za-z])|[{}])"
)
_INNER_DOLLARS = re.compile(r"\$\s*(,|;|and|or|)\s*\$")
_GAP_IN_NUMBER = re.compile(
    r"(?<=[0-9]),\s*\\!\s*(?=[0-9]{3})|(?<=[0-9])\s?\{,\s?\}(?=[0-9]{3})"
    r"|(?<=[0-9])'(?=[0-9]{3}(?![0-9]))"
)
_DOLLARS_THEN_UNIT = re.compile(r"\$([^$]+)\$\s*(?=%|[^\W\d_])")
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{")
_FENCES = (
    ("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("__", "__"),
    ("`", "`"), ('"', '"'), ("“", "”"), ("'", "'"),
)  # fmt: skip
_FENCE_STARTS = frozenset(start[0] for start, _ in _FENCES)
_MAX_WRAPPERS = 12


def unify(text: str) -> str:
    """One notation for one meaning; unknown commands and characters stay as they are."""
    if not text.isascii():
        text = _visible(unicodedata.normalize("NFC", plain_characters(text)))
    if "\\" in text:
        text = _one_latex(text)
    if "\\\\" in text and "\\begin" not in text:
        text = _ESCAPED_TWICE.sub(r"\\", text)
    if "," in text or "'" in text:
        text = _GAP_IN_NUMBER.sub(",", text)
    text = strip_wrappers(text)
    if "$" in text:
        text = _DOLLARS_THEN_UNIT.sub(r"\1 ", _INNER_DOLLARS.sub(r" \1 ", text))
    if "E[" in text or "Var[" in text:
        text = _EXPECTED.sub(r"\1(\2)", text)
    if "~" in text:
        text = _STRUCK_OUT.sub(r"\\sout{\1}", text)
        text = _PRICE_ABOUT.sub(r"~\1", text)
        text = _TILDE.sub(r"\1\\approx ", text)
    text = _PIECE.sub(_rewrite, text)
    for _ in range(2):
        text = _UPRIGHT.sub(r" \1 ", text)
    return figure_in_words(strip_wrappers(text))


def _visible(text: str) -> str:
    """``text`` without characters that are not seen; within a number they stay, to be refused."""

    def kept(found: re.Match[str]) -> str:
        sides = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
        return found[0] if all(map(_BESIDE_DIGIT.fullmatch, sides)) else ""

    text = _INVISIBLE.sub(kept, text)
    return text.replace("\u2062", "*").replace("\u2063", ",").replace("\u2064", "+")


def _one_latex(text: str) -> str:
    r"""Plain TeX as LaTeX, primes as quotes, ``\times`` between vectors as their own product."""
    for written, meant in (
        ("\\left.", ""),
        ("\\right.", ""),
        ("\\mathcal{O}", "O"),
        ("\\mathbb{E}", "E"),
    ):
        text = text.replace(written, meant)
    text = as_latex(text)
    if "\\prime" in text:
        text = _PRIMES.sub(lambda found: "'" * (found[1] or found[2]).count("prime"), text)
    if "\\angle" in text:
        text = _MEASURE.sub("", text)
    if "\\times" in text or "×" in text:
        text = _CROSS.sub(r"\\wedge ", text) if _VECTOR.search(text) else text
    return _LETTER_TRIANGLE.sub(r"\\triangle ", text) if "\\Delta" in text else text


def _rewrite(piece: re.Match[str]) -> str:
    found = piece[0]
    if found[0] in "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ":
        return f"^{{{found.translate(_SUPERSCRIPTS)}}}"
    if len(found) > 1 and not found.isascii():  # Greek: a word has an accent, a product has none
        return found if _GREEK_ACCENT.search(found) else "".join(_REWRITES.get(c, c) for c in found)
    return _REWRITES.get(found, found)


def strip_wrappers(text: str) -> str:
    """Remove delimiters around the whole text, final full stops and outer braces."""
    for _ in range(_MAX_WRAPPERS):
        before = text
        text = text.strip()
        if text.endswith(".") and not text.endswith(".."):
            text = text[:-1]
        text = _outer_braces(_boxed(_fenced(text)))
        if text == before:
            break
    return text


def _fenced(text: str) -> str:
    if text[:1] not in _FENCE_STARTS:
        return text
    for start, end in _FENCES:
        inner = text[len(start) : len(text) - len(end)]
        if inner and text.startswith(start) and text.endswith(end) and end not in inner:
            return inner
    return text


def _boxed(text: str) -> str:
    found = _BOX.match(text)
    if found is None or not text.endswith("}"):
        return text
    return text[found.end() : -1] if closing_brace(text, found.end() - 1) == len(text) - 1 else text


def _outer_braces(text: str) -> str:
    """``{{5}}`` as ``5``, in one pass however deep; a set such as ``{1, 2}`` stays."""
    if not (text.startswith("{") and text.endswith("}")):
        return text
    opened: list[int] = []
    closes: dict[int, int] = {}
    for i, char in enumerate(text):
        if char == "{" and (i == 0 or text[i - 1] != "\\"):
            opened.append(i)
        elif char == "}" and text[i - 1] != "\\" and opened:
            closes[opened.pop()] = i
    low, high = 0, len(text) - 1
    while low < high and text[low] == "{" and closes.get(low) == high:
        low, high = low + 1, high - 1
    inner = text[low : high + 1]
    return text if "," in inner or ";" in inner or not inner.strip() else inner


def closing_brace(text: str, opening: int) -> int:
    """Index of the brace that closes the one at ``opening``; -1 where none does."""
    depth = 0
    for i in range(opening, len(text)):
        if text[i] == "{" and (i == 0 or text[i - 1] != "\\"):
            depth += 1
        elif text[i] == "}" and text[i - 1] != "\\":
            depth -= 1
            if depth == 0:
                return i
    return -1
