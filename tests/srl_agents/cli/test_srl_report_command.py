"""`srl report`: one page from the files of a run, whatever their metrics."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from srl_agents.cli.main import main
from srl_agents.cli.pages.report.panels import OTHER, SECTIONS, arranged, meaning
from srl_agents.cli.pages.report.render import report_data
from srl_agents.cli.pages.report.runs import read_run
from srl_agents.memory.devices import this_machine
from srl_agents.memory.phase_peaks import Phase, phases
from srl_agents.metrics.names import MEANINGS
from srl_agents.recipes.loading import load
from srl_agents.recipes.plan_description import describe
from srl_agents.recipes.settings import LeagueRecipe

NASTY = "</script><script>document.title='owned'</script>"


def a_run(
    folder: Path, *, seed: int = 0, updates: int = 6, env: str = "nim-v0", **recipe: Any
) -> Path:
    """A folder as `srl train` leaves it, without a store."""
    folder.mkdir(parents=True)
    recipe_fields = {
        "name": "mine",
        "model": "tiny",
        "env": env,
        "seed": seed,
        "updates": 10,
    } | recipe
    (folder / "recipe.yaml").write_text(json.dumps(recipe_fields))
    lines = []
    for update in range(1, updates + 1):
        values = {
            "reward": 0.1 * update + seed, "reward/std": 0.5, "kl": 0.01 * update,
            "seat0/reward/mean": 0.2, "seat1/reward/mean": -0.2, "made_up": 7.0,
        }  # fmt: skip
        lines.append(
            {
                "update": update,
                "updates": 10,
                "run": {
                    "tokens_per_s": 100.0,
                    "spent/tokens": 400.0 * update,
                    "spent/cpu_s": update,
                },
                "learners": {"alice": values, "bob": {**values, "kl": math.nan}},
            }
        )
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def embedded(page: Path) -> dict:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text)
    assert found
    return json.loads(found[1])


def traced(run: Path, update: int, phase: str, entered: int, peak: int, left: int) -> None:
    line = {"update": update, "phase": phase, "entered": entered, "peak": peak, "left": left}
    with (run / "memory.jsonl").open("a") as file:
        file.write(json.dumps(line | {"freed": 0, "roles": []}) + "\n")


def test_memory_of_the_last_whole_update_stands_beside_the_plan(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", device="cpu", memory={"budget_gib": 2})
    for update in (5, 6, 7):  # 7 is not over
        traced(run, update, "play", update, 90, 10)
        traced(run, update, "gradients", 11, 50, 12)
        traced(run, update, "gradients", 13, 70, 14)
    memory = read_run(run).memory
    assert memory is not None
    assert (memory["update"], memory["budget"]) == (6, 2 * 2**30)
    assert memory["planned_for"] == "planned for cpu of this machine"
    play, gradients = memory["phases"]
    made = {p.name: p.bytes for p in planned_phases(run / "recipe.yaml")}
    # what the engine may keep depends on memory that is free at the moment
    assert play.pop("planned") == pytest.approx(made["rollout"], rel=0.2)
    assert gradients.pop("planned") == pytest.approx(made["train"], rel=0.2)
    assert play == {"phase": "play", "before": 6, "peak": 90, "after": 10}
    assert gradients == {"phase": "gradients", "before": 11, "peak": 70, "after": 14}


def planned_phases(recipe: Path) -> list[Phase]:
    return phases(describe(load(LeagueRecipe, recipe), accelerator=False), this_machine())


def test_memory_that_cannot_be_planned_is_shown_as_measured(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", model="not/a-model")
    assert read_run(run).memory is None
    traced(run, 1, "play", 1, 3, 2)
    memory = read_run(run).memory
    assert memory is not None
    assert memory["planned_for"].startswith("not planned: model='not/a-model'")
    assert memory["phases"] == [
        {"phase": "play", "before": 1, "peak": 3, "after": 2, "planned": None}
    ]


def test_a_page_holds_the_curves_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(tmp_path / "run", stop={"tokens": 3000})
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").as_uri() in capsys.readouterr().out
    data = embedded(run / "report.html")
    (shown,) = data["runs"]
    facts = dict(shown["facts"])
    assert (facts["updates"], facts["spent"]) == ("6 of 10", "tokens 2,400 of 3,000, cpu_s 6")
    reward = shown["learners"]["alice"]["reward"]
    assert reward["x"] == [1, 2, 3, 4, 5, 6]
    assert reward["y"] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert shown["learners"]["bob"]["kl"]["y"] == [None] * 6  # JSON has no NaN
    assert shown["own"]["tokens_per_s"]["y"] == [100.0] * 6


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    main(["report", str(run)])
    html = (run / "report.html").read_text(encoding="utf-8")
    assert "uPlot" in html
    assert "default-src 'none'" in html
    assert re.findall(r'(?:src|href)="([^"#]*)"', html) == ["data:,"]


def test_seeds_of_one_recipe_are_one_condition_and_others_are_not(tmp_path: Path) -> None:
    folders = [
        a_run(tmp_path / "a", seed=0),
        a_run(tmp_path / "b", seed=1),
        a_run(tmp_path / "c", learners=["alice"]),
        a_run(tmp_path / "d", env="blotto-v0"),
    ]
    data = report_data([read_run(folder) for folder in folders], "")
    assert [run["condition"] for run in data["runs"]] == [0, 0, 1, 2]
    assert [part["env"] for part in data["environments"]] == ["nim-v0", "blotto-v0"]


def test_every_metric_is_shown_once_and_unknown_ones_last() -> None:
    metrics = [
        "reward", "reward/std", "score_bot:random", "score_bot:strong", "seat0/reward/mean",
        "seat0/reward/std", "seat1/reward/mean", "kl", "value/loss", "beta", "tokens_per_s",
        "never_seen",
    ]  # fmt: skip
    sections = dict(arranged(metrics))
    shown = [name for charts in sections.values() for chart in charts for name in chart if name]
    assert sorted(shown) == sorted(metrics)
    assert sections["Reward"] == [("reward", "reward/std")]
    assert sections["By seat"][0] == ("seat0/reward/mean", "seat0/reward/std")
    assert sections["By seat"][1] == ("seat1/reward/mean", "")
    assert sections[OTHER] == [("never_seen", "")]
    assert list(sections)[-1] == OTHER


def test_panels_name_metrics_that_exist() -> None:
    for _, panels in SECTIONS:
        for panel in panels:
            known = panel.metric.replace("seat*", "seat0").replace("game/*/*", "game/*/reward")
            assert meaning(known), panel.metric
    assert meaning("reward/tidy") == MEANINGS["reward/NAME"]
    assert meaning("score_bot:strong") == MEANINGS["score_bot:NAME"]
    assert meaning("made_up") == ""


def test_components_of_rewards_have_a_heading_of_their_own() -> None:
    metrics = ["reward", "reward/std", "reward/min", "reward/tidy", "reward/credited"]
    sections = dict(arranged(metrics))
    assert sections["Reward by component"] == [("reward/credited", ""), ("reward/tidy", "")]
    assert sections["Reward"] == [("reward", "reward/std"), ("reward/min", "")]


def test_names_cannot_leave_their_script(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", name=NASTY)
    main(["report", str(run), "--out", str(tmp_path / "x.html")])
    html = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert NASTY not in html
    assert dict(embedded(tmp_path / "x.html")["runs"][0]["facts"])["recipe"] == NASTY


def test_a_run_that_goes_on_is_drawn_up_to_its_last_whole_line(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"update": 7, "upd')
    assert read_run(run).updates == 6


@pytest.mark.parametrize(
    ("made", "removed", "words"),
    [
        (False, None, "is not a folder"),
        (True, "recipe.yaml", "no recipe.yaml (the recipe)"),
        (True, "metrics.jsonl", "no metrics.jsonl (the curves)"),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: bool, removed: str, words: str
) -> None:
    run = a_run(tmp_path / "run") if made else tmp_path / "absent"
    if removed:
        (run / removed).unlink()
    assert main(["report", str(run)]) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_an_empty_run_and_an_unwritable_file_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(tmp_path / "run", updates=0)
    assert main(["report", str(run)]) == 2
    assert "holds no update yet" in capsys.readouterr().err
    run = a_run(tmp_path / "other")
    assert main(["report", str(run), "--out", str(tmp_path / "no" / "x.html")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--help"]) == 0
    assert "srl report runs/quickstart-tiny-seed0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recipe.yaml", b""),
        ("recipe.yaml", b"- 1"),
        ("recipe.yaml", b"\xff"),
        ("metrics.jsonl", b"\xff\n"),
        ("metrics.jsonl", b"[1]\n"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*left out line 1")
def test_a_damaged_file_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    (a_run(tmp_path / "run") / name).write_bytes(content)
    assert main(["report", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.startswith("srl report: ")
