"""The dispatcher: finding commands, exit codes, and one line for what a user can fix."""

import ast
import importlib.metadata
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import leaderboards
import srl_agents.cli
from srl_agents.cli.main import COMMAND_GROUP, main
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

SCRIPT = Path(sys.executable).with_name("srl")
Install = Callable[[Callable[[list[str]], object]], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make ``srl probe`` call a function."""

    def put(command: Callable[[list[str]], object]) -> None:
        class Probe(EntryPoint):
            def load(self) -> object:
                return command

        probe = Probe("probe", "no_such_module:main", COMMAND_GROUP)
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [probe])

    return put


NUMBERS = st.floats() | st.integers(-(2**53), 2**53)


@pytest.mark.slow
@given(
    st.recursive(
        NUMBERS | st.text(max_size=3), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_json_for_others_has_null_for_what_is_not_finite(value: Any) -> None:
    read = json.loads(plain_json({"x": (value,)}), parse_constant=pytest.fail)["x"]
    if isinstance(value, float) and not math.isfinite(value):
        assert read == [None]
    elif isinstance(value, float | int | str):
        assert read == [value]


def test_no_command_and_no_page_writes_json_that_is_none() -> None:
    """`plain_json`, or a refusal: a bare Infinity breaks the reader of the answer."""
    folders = [Path(package.__path__[0]) for package in (srl_agents.cli, leaderboards)]
    loose = [
        f"{path.name}:{call.lineno}"
        for folder in folders
        for path in folder.rglob("*.py")
        if "redteam" not in path.parts  # writes what is forged
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("json.dumps", "json.dump")
        if "allow_nan" not in {keyword.arg for keyword in call.keywords}
    ]
    assert loose == []


def test_help_lists_every_command_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in ([], ["--help"], ["-h"], ["help"]):
        assert main(argv) == 0
        out = capsys.readouterr().out
        assert re.search(r"^  envs +list the environments", out, re.MULTILINE)
        assert re.search(r"^  play +play episodes", out, re.MULTILINE)
        assert re.search(r"^  train +run a league recipe", out, re.MULTILINE)


def test_help_imports_no_command() -> None:
    program = (
        "import sys; from srl_agents.cli.main import main; main(['--help']); "
        "sys.exit(any(m in sys.modules for m in ('tyro', 'rich', 'torch', 'gymnasium')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "srl 0.1.0\n"


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plya", "x"]) == 2
    streams = capsys.readouterr()
    assert streams.err == "srl: no command 'plya'. Did you mean 'play'? `srl --help` lists all.\n"
    assert streams.out == ""


@pytest.mark.parametrize(("returned", "code"), [(0, 0), (None, 0), (1, 1), (2, 2)])
def test_the_commands_exit_code_is_passed_on(install: Install, returned: object, code: int) -> None:
    given: list[list[str]] = []

    def command(argv: list[str]) -> object:
        given.append(argv)
        return returned

    install(command)
    assert main(["probe", "a", "--b"]) == code
    assert given == [["a", "--b"]]


def raising(error: BaseException) -> Callable[[list[str]], object]:
    def command(_: list[str]) -> object:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigError("size=0: use 1."), 2, "srl probe: size=0: use 1.\n"),
        (KeyboardInterrupt(), 130, "srl probe: interrupted.\n"),
        (SystemExit(0), 0, ""),
        (SystemExit(None), 0, ""),
        (SystemExit(2), 2, ""),
        (SystemExit("text"), 2, ""),
        (
            ModuleNotFoundError("no", name="tyro.conf"),
            2,
            'srl probe: needs tyro, which is not installed: pip install "srl-envs[cli]"\n',
        ),
        (
            ModuleNotFoundError("no", name="torch"),
            2,
            'srl probe: needs torch, which is not installed: pip install "srl-envs[train]"\n',
        ),
    ],
)
def test_what_a_user_can_fix_is_one_line(
    install: Install,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    install(raising(error))
    assert main(["probe"]) == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda folder: (folder / "no/such").read_text(), "{folder}/no/such: No such file or directory."),
        (lambda folder: (folder / "file/below").mkdir(), "{folder}/file/below: Not a directory."),
        (lambda folder: folder.read_text(), "{folder}: Is a directory."),
        (lambda _: Path("/dev/full").write_text("x"), "a file: No space left on device."),
        (lambda folder: (folder / "file").rename(folder / "a/b"),
            "{folder}/file to {folder}/a/b: No such file or directory."),
    ],
)  # fmt: skip
def test_a_file_error_names_path_and_cause(
    install: Install,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    work: Callable[[Path], object],
    said: str,
) -> None:
    (tmp_path / "file").write_text("")
    install(lambda _: work(tmp_path))
    assert main(["probe"]) == 2
    assert capsys.readouterr().err == f"srl probe: {said.format(folder=tmp_path)}\n"


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("ours"),
        ModuleNotFoundError("no", name="srl_agents.nothing"),
        ConnectionRefusedError(111, "Connection refused"),
    ],
)
def test_our_own_mistakes_keep_their_traceback(install: Install, error: Exception) -> None:
    install(raising(error))
    with pytest.raises(type(error)):
        main(["probe"])


@pytest.mark.parametrize("command", ["envs", "play"])
def test_a_missing_package_is_named_with_its_extra(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, f"srl_agents.cli.{command}", raising=False)
    monkeypatch.setitem(sys.modules, "tyro", None)
    assert main([command]) == 2
    assert capsys.readouterr().err.endswith('not installed: pip install "srl-envs[cli]"\n')


def test_a_warning_is_one_line(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    import warnings

    def command(_: list[str]) -> int:
        warnings.simplefilter("always")
        warnings.warn("a package is broken", stacklevel=1)
        return 0

    install(command)
    assert main(["probe"]) == 0
    assert capsys.readouterr().err == "srl probe: warning: a package is broken\n"


def test_the_installed_script_runs() -> None:
    done = subprocess.run(
        [SCRIPT, "envs", "conect_four-v0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "srl envs: no environment 'conect_four-v0'. Did you mean 'connect_four-v0'? "
        f"`srl envs` lists all {done.stderr.split('all ')[1]}"
    )


def test_a_reader_that_leaves_causes_no_traceback() -> None:
    with subprocess.Popen(
        [SCRIPT, "envs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() == 141


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "json:dumpz",
            "registers hello as json:dumpz, but json has no 'dumpz' (Did you mean",
        ),
        ("jsom:dumps", "registers hello as jsom:dumps, but no module 'jsom'"),
    ],
)
def test_a_package_that_registers_what_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str, said: str
) -> None:
    hello = EntryPoint("hello", value, COMMAND_GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [hello])
    assert main(["hello"]) == 2
    assert said in capsys.readouterr().err
