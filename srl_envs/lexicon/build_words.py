"""Make ``words.txt.gz`` from the lists of Debian's package ``scowl``.

``python -m srl_envs.lexicon.build_words FOLDER_OF_LISTS [FILE_OF_STEMS_TO_LEAVE_OUT]``
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

LEVELS = (10, 20, 35)
KINDS = ("english-words", "american-words")
SHORTEST = 4
"""Letters of the shortest word."""


def words_by_level(lists: Path, left_out: re.Pattern[str]) -> dict[int, list[str]]:
    """Lower-case words of the letters a-z only, each at its most common level, sorted."""
    seen: set[str] = set()
    levels: dict[int, list[str]] = {}
    for level in LEVELS:
        lines = [
            word
            for kind in KINDS
            for word in (lists / f"{kind}.{level}").read_text("latin-1").splitlines()
        ]
        fitting = {w for w in lines if re.fullmatch(f"[a-z]{{{SHORTEST},}}", w)}
        levels[level] = sorted(w for w in fitting - seen if not left_out.match(w))
        seen |= fitting
    return levels


def main(arguments: list[str]) -> None:
    """Write the file beside this module; the same bytes for the same lists."""
    stems = Path(arguments[1]).read_text("ascii").split() if arguments[1:] else []
    left_out = re.compile("|".join(stems) or r"(?!)")
    levels = words_by_level(Path(arguments[0]), left_out)
    text = "".join(f"{level} {' '.join(words)}\n" for level, words in levels.items())
    target = Path(__file__).with_name("words.txt.gz")
    target.write_bytes(gzip.compress(text.encode("ascii"), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
