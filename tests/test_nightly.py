"""The page of nightly checks shows every part and what its last run gave."""

import json
from pathlib import Path

import pytest

from tests import doors, nightly


def test_the_page_is_what_the_results_give() -> None:
    rows = json.loads(nightly.RESULTS.read_text())
    assert nightly.PAGE.read_text() == nightly.page(rows)
    assert set(rows) <= set(nightly.PARTS)


@pytest.mark.parametrize(
    ("last", "count"),
    [
        ("11 passed in 3.20s", "11 passed"),
        ("== 1 failed, 3 passed, 2 skipped in 61.00s (0:01:01) ==", "1 failed, 3 passed, 2 skipped"),
        ("3 passed 4 failed", "3 passed 4 failed"),
        ("killed", ""),
    ],
)  # fmt: skip
def test_results_are_pytests_own_counts(tmp_path: Path, last: str, count: str) -> None:
    log = tmp_path / "log"
    log.write_text(f"collecting\n{last}\n")
    assert nightly._last_count(log) == count


def test_a_failed_part_fails_the_night_and_is_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RESULTS", "PAGE"):
        monkeypatch.setattr(nightly, name, tmp_path / name)
    monkeypatch.setattr(nightly, "LOGS", tmp_path)
    monkeypatch.setattr(doors, "PAGE", tmp_path / "DOORS")
    broken = nightly.Part("broken", nightly._logged("false"))
    absent = nightly.Part("absent", nightly._logged("true"), needs="no-such-program")
    later = nightly.Part(
        "later", nightly._logged("sh", "-c", "echo 3 passed in 1.0s; echo wrong page; exit 2")
    )
    monkeypatch.setattr(nightly, "PARTS", {"broken": broken, "absent": absent, "later": later})
    assert nightly.main(["absent"]) == 0
    assert nightly.main([]) == 1
    page = (tmp_path / "PAGE").read_text()
    assert "exit status 1" in page
    assert "skipped: no no-such-program" in page
    assert "3 passed; exit status 2: wrong page" in page
