r"""Plain TeX in the notation of LaTeX: ``{a \over b}``, ``{n \choose k}``, ``\root 3 \of x``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_WRITTEN_SO = re.compile(r"\\(?:over|choose|root|p?matrix|sp|sb|rm|bf|it|sf|tt|sl|cal)(?![A-Za-z])")
_INFIX = {"\\over": "\\frac", "\\choose": "\\binom"}
_PIECE = re.compile(r"\\[A-Za-z]+|\\.|[^\\{}()\[\]=<>,;]+|.", re.DOTALL)
_SEPARATORS = frozenset(
    ("=", "<", ">", ",", ";", "\\le", "\\leq", "\\ge", "\\geq", "\\ne", "\\neq", "\\in", "\\cup",
     "\\cap", "\\approx", "\\{", "\\}")
)  # fmt: skip
_FONT = re.compile(r"\{\s*\\(?:rm|bf|it|sf|tt|sl|cal)(?![A-Za-z])\s*([^{}]*)\}")
_FONT_SWITCH = re.compile(r"\\(?:rm|bf|it|sf|tt|sl|cal)(?![A-Za-z])(?!\s?\*?\s?\{)\s*")
_ROOT = re.compile(r"\\root\s*([^\\{}]{1,12}|\{[^{}]{1,40}\})\s*\\of\s*")
_MATRIX = re.compile(r"\\(p?)matrix\s*\{([^{}]{1,400})\}")
_SCRIPTS = re.compile(r"\\s([pb])(?![A-Za-z])\s*")


def as_latex(text: str) -> str:
    """``text`` with the commands of plain TeX replaced; unchanged where it has none."""
    if "\\" not in text or not _WRITTEN_SO.search(text):
        return text
    text = _FONT_SWITCH.sub("", _FONT.sub(r"\\mathrm{\1}", text))
    text = _SCRIPTS.sub(lambda found: "^" if found[1] == "p" else "_", text)
    text = _ROOT.sub(lambda found: f"\\sqrt[{found[1].strip('{} ')}]", text)
    text = _MATRIX.sub(_as_environment, text)
    return _without_infix(text) if any(name in text for name in _INFIX) else text


def _as_environment(found: re.Match[str]) -> str:
    rows = found[2].strip().removesuffix("\\cr").replace("\\cr", "\\\\")
    return f"\\begin{{{found[1]}matrix}}{rows}\\end{{{found[1]}matrix}}"


@dataclass(slots=True)
class _Scope:
    """What stands between two brackets; an infix command divides what stands around it."""

    opening: str = ""
    done: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    command: str = ""
    above: str = ""

    def divide(self, command: str) -> bool:
        """Begin the lower part; False where the scope is divided already."""
        if self.command:
            return False
        self.command, self.above, self.parts = command, "".join(self.parts), []
        return True

    def close(self) -> str:
        """The text of the scope so far; what follows starts anew."""
        below = "".join(self.parts)
        last = f"{_INFIX[self.command]}{{{self.above}}}{{{below}}}" if self.command else below
        text = "".join(self.done) + last
        self.done, self.parts, self.command, self.above = [], [], "", ""
        return text


def _without_infix(text: str) -> str:
    r"""``{a \over b}`` as ``{\frac{a}{b}}``; relations and commas bound it as brackets do."""
    scopes = [_Scope()]
    for piece in _PIECE.findall(text):
        scope = scopes[-1]
        if piece in _INFIX:
            if not scope.divide(piece):
                return text
        elif piece in ("{", "(", "["):
            scopes.append(_Scope(piece))
        elif piece in ("}", ")", "]") and len(scopes) > 1:
            scopes.pop()
            scopes[-1].parts.append(scope.opening + scope.close() + piece)
        elif piece in _SEPARATORS:
            divided = scope.close()
            scope.done.append(divided + piece)
        else:
            scope.parts.append(piece)
    while len(scopes) > 1:  # brackets that are never closed
        scope = scopes.pop()
        scopes[-1].parts.append(scope.opening + scope.close())
    return scopes[0].close()
