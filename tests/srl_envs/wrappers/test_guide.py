"""The guide's programs run, one after the other."""

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[3] / "docs/guides/wrappers.md"


def run(kinds: tuple[str, ...]) -> dict[str, Any]:
    """Execute the blocks of these kinds in order, in one namespace."""
    names: dict[str, Any] = {}
    for kind, code in re.findall(r"```(\w[\w ]*)\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL):
        if kind in kinds:
            exec(compile(code, f"{GUIDE.name}: {code.splitlines()[0]}", "exec"), names)
    return names


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run(("python",))
    assert len(names["infos_E"]) == 16
    assert names["transcript"].options["wrappers"][0] == {"kind": "TurnLimit", "steps": 30}
    assert sum(names["outcome"]) == 0


@pytest.mark.slow
def test_the_sb3_part_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sb3_contrib", reason="needs sb3-contrib: pip install sb3-contrib")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "model" in run(("python", "python sb3"))
