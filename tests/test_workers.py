"""Every test of the given files runs once, in one of the processes, and a failure of any of them counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import workers

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def ran():
    with open({ran!r}, "a") as file:
        print("begins", file=file)
        yield file
        print("ends", file=file)
"""
FILE = """
def test_runs(ran):
    print(__name__, file=ran)
"""


@pytest.mark.slow
def test_each_file_runs_once_with_the_fixtures_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST.format(ran=str(tmp_path / "ran")))
    names = [f"test_{number}" for number in range(4)]
    for name in names:
        (folder / f"{name}.py").write_text(FILE)
    files = workers.files_below([str(tmp_path)])
    assert workers.run(files, [], 1) == 0
    assert (tmp_path / "ran").read_text().split() == ["begins", *names, "ends"]
    (tmp_path / "ran").unlink()
    assert workers.run(files, [], 2) == 0
    ran = (tmp_path / "ran").read_text().split()
    assert sorted(line for line in ran if line in names) == names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("def test_fails(): assert [1] == [2]", "At index 0 diff: 1 != 2"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("import os\ndef test_dies(): os._exit(7)", "ended with status [7]"),
        ("", "no tests ran"),
    ],
    ids=["a test fails", "a file is not collected", "a process dies", "there is no test"],
)
def test_a_run_fails_when(
    code: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if code:
        (tmp_path / "test_passing.py").write_text("def test_passes(): pass\n")
    (tmp_path / "test_odd.py").write_text(code)
    assert workers.run(workers.files_below([str(tmp_path)]), [], 1) == 1
    assert shown in capsys.readouterr().out


def test_a_file_is_taken_by_one_process(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("a\nb\nc")
    one, other = workers.taken_from(tmp_path), workers.taken_from(tmp_path)
    assert [next(one), next(other), *one, *other] == ["a", "b", "c"]


def test_files_stand_in_the_order_of_the_tree_and_once(tmp_path: Path) -> None:
    for name in ("b/test_2.py", "a/test_1.py", "a/other.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    single = str(tmp_path / "b/test_2.py")
    assert workers.files_below([single, str(tmp_path)]) == [single, str(tmp_path / "a/test_1.py")]
