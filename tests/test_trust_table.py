"""The table of what was broken names a test for every finding, and each of them exists."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "design" / "trust.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").partition("## What was broken")[2].splitlines()
    if line.startswith("| ") and not line.startswith("| finding ")
]
FILES = sorted(TESTS.rglob("test_*.py"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_each_finding_names_a_test_that_exists(row: list[str]) -> None:
    assert len(row) == 2
    named = re.findall(r"`([\w/]+\.py)?(?:::(test_\w+))?`", row[1])
    assert named or row[1].startswith("the same [")
    text = ""
    for file, test in named:
        if file:
            (path,) = [path for path in FILES if str(path).endswith(f"/{file}")]
            text = path.read_text(encoding="utf-8")
        if test:
            assert f"def {test}(" in text
