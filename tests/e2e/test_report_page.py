"""The page of `srl report` in a real browser: charts are drawn, read by keys, themed, fit a phone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import srl_envs
from srl_agents.cli.main import main
from srl_agents.cli.pages.report import render
from srl_agents.cli.pages.report.runs import read_run
from tests.browser import chromium, emulate, fresh, requested, violations

pytestmark = pytest.mark.slow
pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.remote.webdriver import WebDriver  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CURVES = ".section:has(.charts) h3"
NASTY = "<img src=x onerror=document.title='owned'>"


def a_run(folder: Path, seed: int) -> Path:
    folder.mkdir()
    recipe = {"name": NASTY, "model": "tiny", "env": "nim-v0", "seed": seed, "updates": 30}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    with (folder / "metrics.jsonl").open("w") as file:
        for update in range(1, 31):
            values = {
                "reward": 0.02 * update + 0.1 * seed, "reward/std": 0.1, "kl": 0.001 * update,
                "value/explained_var": 0.5, "beta": 0.1, "clip_fraction": 0.0,
            }  # fmt: skip
            line = {
                "update": update,
                "updates": 30,
                "run": {"tokens_per_s": 900.0, "memory/allocated_gb": 1.5},
                "learners": {"alice": values, "bob": values},
            }
            file.write(json.dumps(line) + "\n")
    phases = [("play", 4, 9, 5), ("gradients", 5, 12, 5), ("update", 5, 12, 6)]
    with (folder / "memory.jsonl").open("w") as file:
        for phase, *sizes in phases:
            readings = zip(
                ("entered", "peak", "left"), (10**8 * size for size in sizes), strict=True
            )
            file.write(json.dumps({"update": 30, "phase": phase, **dict(readings)}) + "\n")
    rows = [outside("tiny", None), outside(NASTY, 0.25)]
    (folder / "eval").mkdir()
    (folder / "eval" / "eval.json").write_text(json.dumps({"tasks": "gsm8k", "rows": rows}))
    return folder


def outside(agent: str, gain: float | None) -> dict[str, Any]:
    return {
        "task": "gsm8k", "agent": agent, "score": 0.5, "half_width": 0.1, "samples": 100, "void": 0,
        "gain": gain, "gain_half_width": None if gain is None else 0.1,
    }  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    runs = [str(a_run(folder / f"seed{seed}", seed)) for seed in range(2)]
    assert main(["report", *runs, "--out", str(folder / "report.html")]) == 0
    return folder / "report.html"


@pytest.fixture
def page(browser: WebDriver, report: Path) -> Iterator[Any]:
    fresh(browser, report.as_uri())
    browser.execute_script("document.querySelector('.plot').scrollIntoView({block: 'center'})")
    WebDriverWait(browser, 20).until(lambda b: b.find_elements(By.CSS_SELECTOR, ".plot canvas"))
    yield browser
    assert browser.get_log("browser") == []
    urls = requested(browser)
    assert [u for u in urls if not u.startswith((report.as_uri(), "data:"))] == []
    assert browser.find_elements(By.TAG_NAME, "img") == []


def find(page: WebDriver, selector: str) -> Any:
    return page.find_element(By.CSS_SELECTOR, selector)


def test_sections_stand_in_order_and_names_are_text(page: WebDriver) -> None:
    heads = [h.text for h in page.find_elements(By.CSS_SELECTOR, CURVES)]
    assert heads == [
        "Reward", "Policy", "Value", "Credit and coordination", "Throughput and memory",
    ]  # fmt: skip
    folded = [d.text for d in page.find_elements(By.CSS_SELECTOR, "details:not([open]) > summary")]
    assert folded == heads[1:]
    assert NASTY in find(page, ".run .facts").text
    assert "+0.250" in find(page, "#outside .better").text


def test_the_page_begins_with_what_was_learned(
    browser: WebDriver, report: Path, tmp_path: Path
) -> None:
    fresh(browser, report.as_uri())
    assert "Not measured yet" in find(browser, "#content > :first-child").text
    learned: list[tuple[str, float, float | None]] = [
        ("alice", 0.3, 0.1), ("bob", 0.05, 0.1), ("cleo", -0.3, 0.1), ("dora", 0.5, None),
    ]  # fmt: skip
    gains = [
        {
            "agent": f"{name}@30-0123456789abcdef",
            "estimate": estimate,
            "half_width": width,
            "seeds": 8,
        }
        for name, estimate, width in learned
    ]
    table = {"title": NASTY, "schedule": "eval/final", "rows": [], "alone": [], "partners": []}
    run = replace(read_run(a_run(tmp_path / "run", 0)), tables=[{**table, "gains": gains}])
    shown = tmp_path / "report.html"
    shown.write_text(render.page([run], "srl report run"))
    fresh(browser, shown.as_uri())
    rows = browser.find_elements(By.CSS_SELECTOR, "#content > :first-child tbody tr")
    verdicts = ["yes, better", "not resolved", "no, worse", "unknown: one seed has no interval"]
    for row, (name, _, _), verdict in zip(rows, learned, verdicts, strict=True):
        assert row.text.startswith(f"{name}@30 {verdict} ")
        assert NASTY in row.text


def test_series_that_never_change_are_named_and_not_drawn(page: WebDriver) -> None:
    titles = [t.get_attribute("textContent") for t in page.find_elements(By.TAG_NAME, "figcaption")]
    named = [p.get_attribute("textContent") for p in page.find_elements(By.CLASS_NAME, "constants")]
    assert {"reward", "kl"} <= {*titles}
    assert not {"beta", "clip_fraction", "tokens_per_s"} & {*titles}
    assert "Constant: beta 0.1" in named
    assert any("tokens_per_s 900" in text for text in named)


def test_paper_has_every_chart_and_folds_nothing(page: WebDriver) -> None:
    drawn = "return document.querySelectorAll('.plot canvas').length"
    charts = len(page.find_elements(By.CLASS_NAME, "plot"))
    assert page.execute_script(drawn) < charts
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert page.execute_script(drawn) == charts
    assert not page.find_elements(By.CSS_SELECTOR, "details:not([open])")
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    assert page.find_elements(By.CSS_SELECTOR, "details:not([open])")


def test_memory_is_drawn_by_phase_and_told_in_numbers(page: WebDriver) -> None:
    card = find(page, "#memory .card")
    bars = card.find_elements(By.CSS_SELECTOR, "svg .peak")
    wide = [bar.rect["width"] for bar in bars]
    assert wide[1] == wide[2] == pytest.approx(wide[0] * 12 / 9, rel=0.01)
    (first, *_) = card.find_elements(By.CSS_SELECTOR, "tbody tr")
    assert first.text == "play 0.40 0.90 0.50"
    assert NASTY in card.text  # why nothing is planned


def test_values_are_read_by_arrow_keys(page: WebDriver) -> None:
    plot = find(page, ".plot")
    page.execute_script("arguments[0].focus()", plot)
    page.switch_to.active_element.send_keys(Keys.END)
    label = find(page, ".chart output")
    # the mean of both seeds: 0.6 and 0.7
    WebDriverWait(page, 20).until(lambda p: label.text == "update 30: alice 0.65 · bob 0.65")
    page.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    WebDriverWait(page, 20).until(lambda p: label.text.startswith("update 29: "))


def test_a_line_is_switched_off_with_its_seeds(page: WebDriver) -> None:
    key = find(page, ".keys button")
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    plot = find(page, ".plot")
    page.execute_script("arguments[0].focus()", plot)
    page.switch_to.active_element.send_keys(Keys.END)
    label = find(page, ".chart output")
    WebDriverWait(page, 20).until(lambda p: label.text == "update 30: bob 0.65")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_reports_and_episodes_can_be_read_by_everyone(
    browser: WebDriver, report: Path, tmp_path: Path, width: int, theme: str
) -> None:
    played, shown = tmp_path / "game.jsonl", tmp_path / "game.html"
    game = srl_envs.make("connect_four-v0")
    bots = {seat: srl_envs.make_bot("connect_four-v0", "random", seed=seat) for seat in (0, 1)}
    srl_envs.play(game, bots, seed=3).save(played)
    assert main(["watch", str(played), "--html", str(shown)]) == 0
    for address in (report, shown):
        fresh(browser, address.as_uri())
        emulate(browser, width=width, theme=theme)
        assert violations(browser) == [], address


def test_charts_take_the_theme(page: WebDriver) -> None:
    pixel = "return document.querySelector('.plot canvas').toDataURL();"
    emulate(page, theme="light")
    light = page.execute_script(pixel)
    emulate(page, theme="dark")
    page.execute_async_script("setTimeout(arguments[0], 200)")
    assert page.execute_script(pixel) != light


@pytest.mark.parametrize("width", [390, 1280])
def test_no_sideways_scrolling(page: WebDriver, width: int) -> None:
    emulate(page, width=width)
    page.execute_async_script("setTimeout(arguments[0], 300)")
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    assert page.execute_script(
        "return document.querySelector('.plot canvas').getBoundingClientRect().right"
    ) <= width  # fmt: skip
    wider = "return [...document.querySelectorAll('.scroll')].filter((frame) =>"
    wider += " frame.scrollWidth > frame.clientWidth + 1).map((frame) => frame.ariaLabel)"
    assert page.execute_script(wider) == []


def test_smoothing_draws_again(page: WebDriver) -> None:
    buttons = page.find_elements(By.CSS_SELECTOR, "[aria-label=Smoothing] button")
    buttons[1].click()
    assert buttons[1].get_attribute("aria-pressed") == "true"
    page.execute_script("document.querySelector('.plot').scrollIntoView({block: 'center'})")
    WebDriverWait(page, 20).until(lambda p: p.find_elements(By.CSS_SELECTOR, ".plot canvas"))
