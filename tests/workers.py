"""Run the tests in several processes, each of which imports only the files that it runs.

Every process takes the next file when it has finished one. With pytest-xdist each worker imports every file
and collects every test: a tenth of the time of the fast tests, and a quarter in a fresh clone. Examples:

    python -m tests.workers                           # the fast tests
    python -m tests.workers tests/e2e -- -m slow      # after --: options of pytest
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
QUEUE = "SRL_TEST_QUEUE"
"""Environment variable: folder with the list ``files`` and one empty file per line that a process took."""
NO_COMPILER = {"TORCHDYNAMO_DISABLE": "1"}
"""SRL compiles nothing, but bitsandbytes has every process import torch's compiler: a sixth of its start."""
_PROGRESS_S = 30


def files_below(paths: Sequence[str]) -> list[str]:
    """Test files at and below the paths, in the order of the tree."""
    found: list[Path] = []
    for path in map(Path, paths):
        found += sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    return [str(path) for path in dict.fromkeys(found)]


def taken_from(queue: Path) -> Iterator[str]:
    """Take one file after another that no other process has taken."""
    for number, file in enumerate((queue / "files").read_text(encoding="utf-8").splitlines()):
        try:
            (queue / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        yield file


_MODULES: dict[Path, pytest.Module] = {}
"""In a process of tests: a node for each file, with the folders and fixtures around it."""


def pytest_configure(config: pytest.Config) -> None:
    """Have pytest collect all files of the queue ..."""
    config.args = (Path(os.environ[QUEUE]) / "files").read_text(encoding="utf-8").splitlines()


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> pytest.CollectReport | None:
    """... but import a file only when it is collected for the second time."""
    if not isinstance(collector, pytest.Module) or collector.path in _MODULES:
        return None
    _MODULES[collector.path] = collector
    return pytest.CollectReport(collector.nodeid, "passed", None, [])


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Import and run the files that no other process takes."""
    tests, following = itertools.tee(_tests(session))
    next(following, None)  # fixtures end according to the test that follows
    ran = 0
    for test, nextitem in zip(tests, itertools.chain(following, [None]), strict=False):
        session.config.hook.pytest_runtest_protocol(item=test, nextitem=nextitem)
        ran += 1
        if session.shouldfail or session.shouldstop:
            break
    session.testscollected = ran
    return True


def _tests(session: pytest.Session) -> Iterator[pytest.Item]:
    for file in taken_from(Path(os.environ[QUEUE])):
        # The whole hook, as it also sets the filters of warnings and the rewriting of assertions.
        collecting: Any = session
        collecting.perform_collect = functools.partial(_collect, session, _MODULES[ROOT / file])
        session.config.hook.pytest_collection(session=session)
        yield from session.items


def _collect(session: pytest.Session, module: pytest.Module) -> None:
    """Do for one file what `pytest.Session.perform_collect` does, within the folders that there are."""
    session.items = [*session.genitems(module)]
    hook = session.config.hook
    hook.pytest_collection_modifyitems(session=session, config=session.config, items=session.items)
    hook.pytest_collection_finish(session=session)


def run(files: Sequence[str], options: Sequence[str], processes: int) -> int:
    """Run the files' tests with options of pytest; print each process's report when all have ended.

    Returns:
        0 if every test passed, 1 if one failed, none was collected or a process died.
    """
    with tempfile.TemporaryDirectory() as folder:
        queue = Path(folder)
        (queue / "files").write_text("\n".join(files), encoding="utf-8")
        reports = [queue / f"report-{number}" for number in range(processes)]
        started = [_start(queue, report, options) for report in reports]
        statuses = [_status(process, queue, len(files)) for process in started]
        for report in reports:
            print(report.read_text(encoding="utf-8", errors="replace"), flush=True)
    idle = int(pytest.ExitCode.NO_TESTS_COLLECTED)
    dead = [status for status in statuses if status not in (0, 1, idle)]
    if dead:
        print(f"processes ended with status {dead}; their reports above end where they did")
    return int({*statuses} == {idle} or not {*statuses} <= {0, idle})


def _start(queue: Path, report: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    plugins = ("-p", "tests.workers", "-p", "no:cacheprovider")
    style = ("-o", "console_output_style=classic")  # the number of tests is not known
    with report.open("wb") as out:
        return subprocess.Popen(
            (sys.executable, "-m", "pytest", *plugins, *style, *options),
            cwd=ROOT,
            env=os.environ | {QUEUE: str(queue)} | NO_COMPILER,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def _status(process: subprocess.Popen[bytes], queue: Path, files: int) -> int:
    """Wait for the end of a process; print every half a minute how many files were begun."""
    while True:
        try:
            return process.wait(_PROGRESS_S)
        except subprocess.TimeoutExpired:
            begun = sum(path.name.isdigit() for path in queue.iterdir())
            print(f"{begun} of {files} files", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 passed, 1 failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-n", type=int, default=3, help="processes (default: 3)")
    parser.add_argument("paths", nargs="*", default=["tests"], help="files and folders of tests")
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, options = given, []
    if "--" in given:
        own, options = given[: given.index("--")], given[given.index("--") + 1 :]
    chosen = parser.parse_args(own)
    return run(files_below(chosen.paths), options, chosen.n)


if __name__ == "__main__":
    sys.exit(main())
