"""Keep words that make our sentences hard to read rare: ``python -m tests.plain_words [FILE ...]``.

Counts the words in code, comments, docstrings, messages and pages. The whole tree may have fewer than seven
per 10,000 lines; `make lint` fails above that and lists the files with the most. With files as arguments,
every line that has such a word is printed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PER_1000_LINES = 0.7
WORDS = re.compile(
    r"\b(?:told|tells|hears|forgets|knows|says|wants|whoever|nobody|somebody|anybody"
    r"|(?<!-)alone|(?<!there )is no|(?<!there )are no)\b",
    re.IGNORECASE,
)
"""Code does not tell, hear, forget, know, say or want; name the person: the user, the caller."""
NOT_OURS_TO_CHANGE = re.compile(
    r"docs/changelog\.md|docs/design/plain_english\.md|docs/environments/prompts\.md|docs/environments/.*-v\d+\.md"
    r"|leaderboards/published/|tests/plain_words\.py|tests/golden/"
)
"""History, quoted old texts, texts of games that scores depend on, and records."""


def texts() -> list[Path]:
    """Tracked Python files and pages."""
    command = ["git", "ls-files", "*.py", "*.md"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in names.splitlines() if not NOT_OURS_TO_CHANGE.match(name)]


def offenders(path: Path) -> list[tuple[int, str, str]]:
    """(line number, word, line) of every measured word in a file."""
    return [
        (number, word, line.strip())
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for word in WORDS.findall(line)
    ]


def main(arguments: list[str]) -> int:
    """Exit code: 0 rare enough, 1 not."""
    if arguments:
        for path in map(Path, arguments):
            for number, word, line in offenders(path):
                print(f"{path}:{number}: {word}: {line}")
        return 0
    files = texts()
    found = Counter({path: len(offenders(path)) for path in files})
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    rate = 1000 * found.total() / lines
    print(
        f"{found.total()} measured words in {lines} lines: {rate:.2f} per 1,000 (limit {PER_1000_LINES:g})"
    )
    if rate < PER_1000_LINES:
        return 0
    for path, count in found.most_common(20):
        print(f"{count:5} {path.relative_to(ROOT)}")
    print("CONTRIBUTING.md has the rule; `python -m tests.plain_words FILE` prints the lines.")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
