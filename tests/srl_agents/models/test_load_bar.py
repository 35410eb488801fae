"""Long loads are shown: lines off a terminal, a bar on one, nothing where they are quick."""

from __future__ import annotations

import io
import sys
import threading
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from srl_agents.models import load_bar
from srl_agents.models.load_bar import LoadBar, shown
from srl_agents.models.quiet import quiet_libraries
from srl_agents.models.sources import hub
from srl_agents.models.sources.catalog import resolve

TINY_S = 1e-9


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is slow enough to be shown."""
    monkeypatch.setattr(LoadBar, "said_s", float("-inf"))
    monkeypatch.setattr(load_bar, "QUICK_S", TINY_S)
    monkeypatch.setattr(load_bar, "EVERY_S", TINY_S)


@pytest.mark.usefixtures("slow")
def test_weights_that_load_are_whole_lines_off_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with quiet_libraries(), shown("loading tiny"):
        AutoModelForCausalLM.from_pretrained(resolve("tiny"))
    err = capsys.readouterr().err
    assert any(line.startswith("Loading weights:") and "%" in line for line in err.splitlines())
    assert "\r" not in err
    assert "\x1b" not in err


def test_what_is_quick_shows_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_bar, "QUICK_S", 60.0)
    monkeypatch.setattr(load_bar, "EVERY_S", 60.0)
    with quiet_libraries(), shown("loading tiny"):
        AutoModelForCausalLM.from_pretrained(resolve("tiny"))
    assert capsys.readouterr().err == ""


def test_work_without_steps_says_that_it_goes_on_and_stops_saying_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_bar, "EVERY_S", 0.01)
    said = threading.Event()

    class Heard(io.StringIO):
        def write(self, text: str) -> int:
            said.set()
            return super().write(text)

    heard = Heard()
    monkeypatch.setattr(sys, "stderr", heard)
    with shown("downloading a wheel"):
        assert said.wait(60)
    assert heard.getvalue().splitlines()[0] == "downloading a wheel: 0 s"
    assert not [t for t in threading.enumerate() if t.name == "downloading a wheel"]


def test_afterwards_libraries_are_as_they_were() -> None:
    with pytest.raises(ValueError, match="broken"), shown("loading"):
        raise ValueError("broken")
    assert transformers_logging.set_tqdm_hook(None) is None


def test_a_terminal_gets_a_bar_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "__stderr__", terminal)
    monkeypatch.setattr(load_bar, "QUICK_S", TINY_S)
    for _ in LoadBar(range(3), desc="steps", mininterval=0):
        pass
    assert "\rsteps:" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()


@pytest.mark.usefixtures("slow")
def test_bars_leave_no_thread_behind() -> None:
    before = threading.active_count()
    with LoadBar(range(2), desc="steps") as bar:
        list(bar)
    assert threading.active_count() == before
    assert not LoadBar._instances


@pytest.mark.usefixtures("slow")
def test_downloads_from_the_hub_are_lines_off_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[object] = []

    def fetch(name: str, *, tqdm_class: type[LoadBar], **_: object) -> str:
        asked.append(tqdm_class)
        with tqdm_class(total=4_000_000_000, unit="B", unit_scale=True, desc=name) as bar:
            bar.update(1_000_000_000)
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", fetch)
    hub.download("org/model")
    assert asked == [LoadBar]
    err = capsys.readouterr().err
    assert "org/model:  25%" in err
    assert "1.00G/4.00G" in err
