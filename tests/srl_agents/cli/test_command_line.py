"""Every command reads its options in one way, and reports a mistake in one line."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

import pytest
import tyro

import leaderboards.cli
import srl_agents.cli
from leaderboards.cli.main import SUBCOMMANDS as OF_BOARDS
from srl_agents.cli.command_line import read_options
from srl_agents.cli.league.main import SUBCOMMANDS as OF_LEAGUES
from srl_agents.cli.main import COMMAND_GROUP, main
from srl_agents.cli.settings_page import groups
from srl_agents.cli.train import TrainOptions
from srl_envs.errors import ConfigError

PARENTS = ("league", "leaderboard")
COMMANDS = sorted(
    [
        [entry.name]
        for entry in metadata.entry_points(group=COMMAND_GROUP)
        if entry.name not in PARENTS
    ]
    + [["league", name] for name in OF_LEAGUES]
    + [["leaderboard", name] for name in OF_BOARDS]
    + [["plan", name] for name in ("seeds", "parallel", "kv")]
)


@dataclass(frozen=True)
class Options:
    """Of a command."""

    place: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PLACE")]
    """Where."""
    level: Literal["low", "high"] = "low"
    """How far."""
    seconds: float = 1.0
    """How long."""
    rounds: int = 1
    """How often."""
    limit: int | None = None
    """How often at most."""

    def __post_init__(self) -> None:
        if self.seconds <= 0:
            raise ConfigError(f"seconds={self.seconds}: give more than 0.")


def read(*argv: str) -> Options:
    return read_options(Options, command="srl go", description="Go.", argv=argv)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_an_unknown_option_takes_one_line_and_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--no-such-option"]) == 2

    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"srl {arguments[0]}")
    assert f"See `srl {' '.join(arguments)} --help`." in error


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_help_has_an_example_of_the_command(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--help"]) == 0

    text = capsys.readouterr().out
    assert re.search(r"Examples?:\n  (?:\w+=\S+ )*srl " + " ".join(arguments), text)
    assert "--help" in text


def test_help_of_out_speaks_of_the_command_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for command, said in (("new", "folder NAME of the package"), ("score", "each reply's score")):
        assert main([command, "--help"]) == 0
        text = " ".join(capsys.readouterr().out.partition("options ")[2].replace("│", " ").split())
        assert said in text
        assert "`srl " not in text.partition("--out")[2].partition("(default")[0]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "give PLACE."),
        (("here", "--levle", "low"), "unrecognized options: --levle, low. Did you mean --level?"),
        (("here", "--level"), "missing value for argument '--level'. Expected 1 values."),
        (("here", "--level", "up"), "invalid choice 'up' for argument '--level'."),
        (
            ("here", "--seconds", "x" * 300),
            f"--seconds: '{'x' * 300}' is not a number.",
        ),
        (("here", "--rounds", "abc"), "--rounds: 'abc' is not a whole number."),
        (("--rounds", "abc"), "--rounds: 'abc' is not a whole number."),
        (("--seconds", "0"), "seconds=0.0: give more than 0."),
        (("here", "--limit", "abc"), "--limit: 'abc' is not a whole number."),
        (("here", "--seconds", "0"), "seconds=0.0: give more than 0."),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_mistake_is_one_sentence_whatever_the_terminal(
    argv: tuple[str, ...], said: str, encoding: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("w", encoding=encoding) as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        with pytest.raises(ConfigError) as raised:
            read(*argv)

    assert str(raised.value).startswith(said)
    assert str(raised.value).endswith(" See `srl go --help`.")
    assert "\n" not in str(raised.value)


def test_no_other_way_of_reading_options_is_left() -> None:
    for package in (srl_agents, leaderboards):
        for path in Path(package.__path__[0]).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            allowed = path.name == "minimal.py" or path.parent.name in ("completion", "examples")
            # one file, no tyro; what shtab reads; files of packages that users own
            assert "argparse" not in text or allowed, path
            assert "tyro.cli(" not in text or path.name == "command_line.py", path


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["r", "--updates", "3"], "--set updates=3"),
        (["r", "--updates=3"], "--set updates=3"),
        (["r", "--lora.rank", "4"], "--set lora.rank=4"),
        (["r", "--quick", "--seed", "2"], "--set quick=VALUE"),
    ],
)
def test_an_option_that_is_a_setting_is_answered_with_set(argv: list[str], hint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(hint)):
        read_options(TrainOptions, command="srl train", description="", argv=argv)


def test_no_flag_is_shown_negated_above_help_for_its_opposite() -> None:
    """A flag that is on by default is listed as ``--no-NAME``, so its help has to name that."""
    helps = {one.name: one.text for group in groups() for one in group.settings}
    wrong = [
        f"{module.name}.{name}.{field.name}"
        for package in (srl_agents.cli, leaderboards.cli)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if ".examples." not in module.name  # of packages that users own, with other libraries
        for name, kind in vars(importlib.import_module(module.name)).items()
        if name.endswith("Options") and dataclasses.is_dataclass(kind)
        for field in dataclasses.fields(kind)
        if field.default is True and f"--no-{field.name}" not in helps[field.name]
    ]
    assert not wrong


def test_an_option_of_an_earlier_release_is_answered_by_what_is_done_now(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["watch", "runs/one", "--every-s=2"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(
        "srl watch: --every-s was removed: looks at a run are a second apart."
    )
    assert printed.count("\n") == 1
