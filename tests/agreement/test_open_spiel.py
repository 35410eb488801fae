"""`python -m benchmarks.agreement.open_spiel` does the same at length."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspiel", reason="OpenSpiel is not installed: pip install open-spiel")

from benchmarks.agreement import open_spiel
from srl_envs.families.board.nim import Nim
from srl_envs.families.cards.kuhn_poker import KuhnPoker


@pytest.mark.parametrize("name", list(open_spiel.COMPARISONS))
def test_the_rules_agree_with_those_of_open_spiel_move_for_move(name: str) -> None:
    found = open_spiel.compare(name, playouts=40)
    assert found.first == ""
    assert found.disagreements == 0
    assert found.games >= 20
    assert found.moves >= 2 * found.games


def test_a_payment_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Nim, "returns", lambda self, state: None if any(state.heaps) else (0.0, 0.0)
    )
    found = open_spiel.compare("nim", playouts=3)
    assert found.disagreements == 3
    assert "paid: ours [0.0, 0.0], OpenSpiel's" in found.first


def test_a_legal_action_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KuhnPoker, "legal", lambda self, state, seat: ("check", "bet", "fold"))
    assert "legal actions" in open_spiel.compare("leduc", playouts=1).first


def test_the_command_writes_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "agreement.json"
    args = ["open_spiel", "--playouts", "2", "--games", "nim", "kuhn", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", args)
    assert open_spiel.main() == 0
    written = json.loads(out.read_text())["games"]
    assert {name: result["games"] for name, result in written.items()} == {"nim": 2, "kuhn": 12}
    assert "Everything, normal and misere." in capsys.readouterr().out
