"""The list of what audits found broken names a test for every finding, and each of them exists."""

import csv
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
with (TESTS / "audited_findings.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))
FILES = sorted(TESTS.rglob("test_*.py"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["finding"][:40])
def test_each_finding_names_a_test_that_exists(row: dict[str, str]) -> None:
    assert row["area"]
    named = re.findall(r"`([\w/]+\.py)?(?:::(test_\w+))?`", row["tests"])
    assert named or row["tests"].startswith("the same [")
    text = ""
    for file, test in named:
        if file:
            (path,) = [path for path in FILES if str(path).endswith(f"/{file}")]
            text = path.read_text(encoding="utf-8")
        if test:
            assert f"def {test}(" in text
