"""`srl redteam`: its output, files and exit codes, and attacks on another checkout."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import srl_envs
from srl_agents.cli.redteam import main
from srl_envs.errors import ConfigError
from srl_envs.redteam import campaign, published
from srl_envs.redteam.findings import Finding, Report, load_case, save_case

REFUSED = Finding(
    kind="right_format_refused",
    target="formats",
    observed="a right reply",
    expected="right",
    case={
        "probe": "formats",
        "target": "formats",
        "spec": "answer alone, no thought",
        "reply": "x",
    },
)


def faulty(reports: list[Report]) -> object:
    def run(*_args: object, **_kwargs: object) -> list[Report]:
        return reports

    return run


@pytest.mark.slow
def test_a_sound_target_gives_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats", "--budget-s", "3", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["target"] == "formats"
    assert report["measures"]["verdicts"] > 100


def test_findings_give_one_and_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "run", faulty([Report("formats", [REFUSED])]))
    out, cases = tmp_path / "out", tmp_path / "cases"
    assert main(["formats", "--out", str(out), "--save", str(cases)]) == 1
    assert "right_format_refused: a right reply" in capsys.readouterr().out
    assert "right_format_refused" in (out / "hackability.md").read_text()
    (path,) = cases.iterdir()
    assert load_case(path) == REFUSED
    assert json.loads((out / "report.json").read_text())["reports"][0]["target"] == "formats"


def test_a_folder_that_cannot_be_made_is_said_before_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(campaign, "run")
    (tmp_path / "file").touch()
    for option in ("--out", "--save"):
        with pytest.raises(ConfigError, match="cannot write"):
            main(["formats", option, str(tmp_path / "file")])


def test_a_run_is_published_over_the_rows_of_its_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others stay as they were, cases are left out, and targets that are gone go."""
    monkeypatch.setattr(published, "PATH", tmp_path / "published.json")
    known = ["nim-v0", "formats"]
    old = [Report("nim-v0"), Report("formats"), Report("gone-v0")]
    published.publish(old, "srl redteam --all", [*known, "gone-v0"], published.PATH)
    monkeypatch.setattr(campaign, "list_targets", lambda _: known)
    monkeypatch.setattr(campaign, "run", faulty([Report("formats", [REFUSED])]))
    assert main(["formats", "--budget-s", "3", "--publish"]) == 1
    found = published.published(published.PATH)
    assert list(found) == known
    assert found["formats"].findings == [replace(REFUSED, case={})]
    page = published.page(published.PATH)
    assert "`srl redteam --all --publish`; formats by `srl redteam formats --budget-s 3" in page


def test_a_target_that_could_not_be_attacked_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "run", faulty([Report("formats", faults=["no end"])]))
    assert main(["formats"]) == 1
    assert "a probe could not be run: no end" in capsys.readouterr().out


def test_replay_tells_whether_a_fault_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_case(REFUSED, tmp_path)
    assert main(["--replay", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("gone")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nimm-v0"], "Did you mean 'nim-v0'"),
        (["nim-v0", "--suite", "/nowhere"], "holds no folder srl_envs"),
        (["--replay", "/nowhere"], "holds no cases"),
    ],
)
def test_a_mistake_names_what_to_do(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        main(arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "nothing to attack"), (["nim-v0", "--budget-s", "0"], "give seconds above 0")],
)
def test_an_impossible_option_ends_at_once(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        main(arguments)


@pytest.mark.slow
def test_another_checkout_is_attacked_by_this_red_team(tmp_path: Path) -> None:
    """A suite without a red team of its own, in which the format checker accepts everything."""
    shutil.copytree(
        Path(srl_envs.__file__).parent,
        tmp_path / "srl_envs",
        ignore=shutil.ignore_patterns("redteam", "__pycache__"),
    )
    checker = tmp_path / "srl_envs/rewards/format/checker.py"
    text = checker.read_text()
    assert "if not faults:" in text
    checker.write_text(text.replace("if not faults:", "if True:"))
    suite = campaign.find_suite(tmp_path)
    first, second = campaign.run(["formats", "answers"], suite=suite, seconds=6, jobs=2)
    assert {finding.kind for finding in first.findings} == {"wrong_format_accepted"}
    assert (second.target, second.faults) == ("answers", [])
    assert first.spent_s + second.spent_s < 12
