import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import srl_envs
from srl_agents.agents import ScriptedPolicy
from srl_agents.cli import watch as command
from srl_agents.cli.main import main
from srl_agents.cli.pages.episode.markup import page
from srl_agents.cli.views.recorded import watchable
from srl_agents.records import MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.branches import branch_spec
from srl_agents.rollouts.transcripts import TRAINING_MATCHES, TranscriptLog

Streams = pytest.CaptureFixture[str]
GOLDEN = Path(__file__).parents[2] / "golden"
NASTY = "</pre></style></script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
DRIVES_TERMINALS = "\x1b[31mred\x1b]0;owned\x07 \u202egnp.exe \ud800"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A game of nim in which seat 0 starts every turn with a hostile reply."""
    env = srl_envs.make("nim-v0")
    strong = srl_envs.make_bot("nim-v0", "strong")
    turns = iter([NASTY, DRIVES_TERMINALS] * 99)
    asked = iter(range(99))

    def rude(text: str) -> str:
        return next(turns) if next(asked) % 2 == 0 else strong(text)

    path = tmp_path_factory.mktemp("hostile") / "game.jsonl"
    srl_envs.play(env, {0: rude, 1: strong}, seed=3).save(path)
    env.close()
    return path


class Reader(HTMLParser):
    """Elements, attributes, and the text outside of script and style."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._inside[-1:]):
            self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


# --- playing it again ---------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["kuhn_poker-v0", "undercover-v0", "blotto-v0", "liars_dice-v0"])
def test_a_recording_shows_what_every_seat_saw(env_id: str) -> None:
    game = srl_envs.load_transcript(GOLDEN / f"{env_id}.2.jsonl")
    episode = watchable(game, ("Ann",))
    seats = srl_envs.spec(env_id).seats
    assert episode.differs == ()
    assert [{t.seat: t.reply for t in step.on_move} for step in episode.steps] == [
        step.replies for step in game.steps
    ]
    assert all(len(step.turns) == seats for step in episode.steps)
    assert [episode.who(seat) for seat in (0, 1)] == ["player_0 (Ann)", "player_1"]
    env = srl_envs.make(env_id)
    first = env.reset(seed=game.seed, options={"split": game.split})[0]
    assert [turn.text for turn in episode.steps[0].turns] == [
        first[agent]["text"] for agent in env.possible_agents
    ]
    env.close()


def test_news_starts_from_what_a_seat_was_last_asked() -> None:
    """The rules show at a seat's first own turn, also where it waited before."""
    episode = watchable(srl_envs.load_transcript(GOLDEN / "kuhn_poker-v0.2.jsonl"))
    (first,) = (turn.seat for turn in episode.steps[0].on_move)
    waited = [step.turns[1 - first] for step in episode.steps if step.on_move[0].seat != first]
    assert waited[0].before is None
    assert waited[1].before == waited[0].text


def test_a_move_that_the_environment_made_is_told(capsys: Streams, tmp_path: Path) -> None:
    env = srl_envs.make("nim-v0", max_retries=1)
    strong = srl_envs.make_bot("nim-v0", "strong")
    silent = iter(["", "", *[None] * 50])
    game = srl_envs.play(
        env, {0: lambda text: strong(text) if (s := next(silent)) is None else s, 1: strong}, seed=1
    )
    game.save(tmp_path / "game.jsonl")
    env.close()
    assert main(["watch", str(tmp_path / "game.jsonl")]) == 0
    out = capsys.readouterr().out
    assert out.count("NOT ACCEPTED (malformed)") == 2
    assert out.count("NOT ACCEPTED (malformed), 1 1 is played for it") == 1


def test_a_recording_that_claims_more_than_it_replays_is_marked(
    capsys: Streams, tmp_path: Path
) -> None:
    game = srl_envs.load_transcript(GOLDEN / "nim-v0.0.jsonl")
    forged = replace(game, rewards=(1.0, 1.0))
    forged.save(tmp_path / "forged.jsonl")
    assert main(["watch", str(tmp_path / "forged.jsonl")]) == 0
    assert "does not replay to what it claims: rewards differ" in capsys.readouterr().err
    assert "rewards differ" in read(page(watchable(forged))).text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": ()}, "step"),
        ({"env_id": "nimm-v0"}, "Did you mean 'nim-v0'"),
        ({"options": {"heap": 3}}, "no option 'heap'"),
        ({"options": {"wrappers": [{"kind": "mine:Shaped"}]}}, "recorded through mine:Shaped"),
    ],
)
def test_a_recording_that_cannot_be_played_is_one_line(
    change: dict[str, object], message: str, capsys: Streams, tmp_path: Path
) -> None:
    game = srl_envs.load_transcript(GOLDEN / "nim-v0.0.jsonl")
    broken = replace(game, **change)  # type: ignore[arg-type]
    if change == {"steps": ()}:
        broken = replace(game, steps=(*game.steps, game.steps[-1]))
        message = "goes on after the end"
    broken.save(tmp_path / "broken.jsonl")
    assert main(["watch", str(tmp_path / "broken.jsonl")]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_what_is_no_recording_is_one_line(capsys: Streams, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("hello")
    for path in (tmp_path / "x.jsonl", tmp_path / "absent.jsonl"):
        assert main(["watch", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_a_match_of_a_run_is_found_by_its_id(capsys: Streams, tmp_path: Path) -> None:
    spec = MatchSpec(
        env_id="nim-v0", seed=1, split="train", seats=("bot:random",) * 2, learner_seats=(0,)
    )
    log = TranscriptLog(tmp_path / TRAINING_MATCHES)
    with Rollouts({"bot:random": ScriptedPolicy("random")}, root_seed=0) as rollouts:
        (parent,) = rollouts.play([spec], finished=log.add)
        fork = branch_spec(parent, 1, alternative=1)
        rollouts.play([fork], finished=log.add, parents={spec.match_id: parent})
    assert main(["watch", str(tmp_path / fork.match_id[:8])]) == 0
    shown, warned = capsys.readouterr()
    assert "nim-v0, seed 1 (train), step 1" in shown
    assert "bot:random" in shown
    assert warned == ""
    assert main(["watch", str(tmp_path / "0000")]) == 2
    assert "no matches of the run begin so" in capsys.readouterr().err.replace("\n", " ")


# --- in the terminal ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.2.jsonl")), ids=lambda path: path.stem)
def test_every_environment_can_be_watched_in_a_pipe(path: Path, capsys: Streams) -> None:
    if path.name.startswith(("code_duel", "spec_golf", "pair_programming")):
        pytest.skip("runs programs; tests/golden replays it")
    game = srl_envs.load_transcript(path)
    assert main(["watch", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.count(" replies\n") == sum(len(step.replies) for step in game.steps)
    assert f"step {len(game.steps)} of {len(game.steps)}" in captured.out
    assert f"player_0: outcome {game.outcomes[0]:+.3g}" in captured.out


def test_replies_cannot_drive_the_terminal(hostile: Path, capsys: Streams) -> None:
    assert main(["watch", str(hostile), "--all", "--full"]) == 0
    out = capsys.readouterr().out
    assert r"\x1b[31mred" in out
    assert r"\u202e" in out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)


def test_keys_move_within_the_episode() -> None:
    assert [command.moved(1, pressed, 3) for pressed in ("next", "back", "first", "last")] == [
        2, 0, 0, 2,
    ]  # fmt: skip
    assert command.moved(2, "next", 3) == 2
    assert command.moved(0, "back", 3) == 0
    assert command.moved(1, None, 3) == 1
    assert command.KEYS["\x1b[C"] == "next"
    assert command.KEYS["\x1b[D"] == "back"


def test_a_terminal_is_walked_step_by_step() -> None:
    """In a terminal of its own: forward by an arrow, back by another, and away."""
    keyboard, terminal = pty.openpty()
    path = str(GOLDEN / "nim-v0.0.jsonl")
    code = f"import sys; from srl_agents.cli.watch import main; sys.exit(main([{path!r}]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=terminal, stdout=terminal, stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(terminal)
    try:
        for key, expected in (("", "1/"), ("\x1b[C", "2/"), ("\x1b[D", "1/"), ("G", "the end")):
            if key:
                os.write(keyboard, key.encode())
            _wait_for(keyboard, expected)
        os.write(keyboard, b"q")
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)


def _wait_for(terminal: int, expected: str) -> None:
    """Read until the foot of a screen is there, and the text that is looked for."""
    seen, end = "", time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 65536).decode(errors="replace")
        if expected in seen and "leave: q" in seen:
            return
    raise AssertionError(f"{expected!r} was not shown: {seen[-500:]!r}")


# --- as a page ----------------------------------------------------------------------------------


def test_the_page_shows_every_step(tmp_path: Path, capsys: Streams) -> None:
    path = GOLDEN / "kuhn_poker-v0.2.jsonl"
    game = srl_envs.load_transcript(path)
    out = tmp_path / "game.html"
    assert main(["watch", str(path), "--html", str(out)]) == 0
    assert capsys.readouterr().out == f"Open {out.as_uri()}\n"
    reader = read(out.read_text())
    ids = [attrs.get("id") for tag, attrs in reader.elements if tag == "section"]
    assert ids == [*(f"step-{n}" for n in range(1, len(game.steps) + 1)), "end"]
    assert reader.text.count("NOT ACCEPTED (") == sum(any(step.invalid) for step in game.steps)
    for step in game.steps:
        assert all(reply in reader.text for reply in step.replies.values())


def test_the_page_fetches_nothing_and_runs_one_script() -> None:
    html = page(watchable(srl_envs.load_transcript(GOLDEN / "undercover-v0.2.jsonl")))
    reader = read(html)
    targets = [
        value
        for _, attrs in reader.elements
        for name, value in attrs.items()
        if name in ("src", "href", "srcset", "action", "data")
    ]
    assert targets == ["#step-1"]
    assert [tag for tag, _ in reader.elements].count("script") == 1
    (policy,) = [a["content"] for _, a in reader.elements if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_hostile_text_stays_text(hostile: Path) -> None:
    html = page(watchable(srl_envs.load_transcript(hostile), (NASTY, "$title ${style}")))
    reader = read(html)
    assert [tag for tag, _ in reader.elements].count("script") == 1
    assert [tag for tag, _ in reader.elements].count("img") == 0
    assert not any(name.startswith("on") for _, attrs in reader.elements for name in attrs)
    assert NASTY in reader.text
    assert "player_1 ($title ${style})" in reader.text
    assert not {"\x1b", "\x07", "\u202e", "\ud800"} & set(html)
    html.encode()


def test_a_page_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: Streams) -> None:
    path = str(GOLDEN / "nim-v0.0.jsonl")
    assert main(["watch", path, "--html", str(tmp_path / "absent" / "x.html")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("needs chromium and chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/p"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    browser = webdriver.Chrome(options=options, service=service)
    yield browser
    browser.quit()


@pytest.mark.slow
def test_the_page_is_walked_by_arrow_keys(browser: Any, hostile: Path, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    out = tmp_path / "game.html"
    out.write_text(page(watchable(srl_envs.load_transcript(hostile), (NASTY,))))
    browser.get(out.as_uri())

    def at(*keys: str) -> str:
        for key in keys:
            browser.switch_to.active_element.send_keys(key)
        return browser.find_element(By.ID, "at").text

    steps = len(srl_envs.load_transcript(hostile).steps)
    assert at() == "start"
    assert at(Keys.ARROW_RIGHT) == f"step 1 of {steps}"
    assert at(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT) == f"step 2 of {steps}"
    assert browser.switch_to.active_element.get_attribute("id") == "step-2"
    assert at(Keys.END) == "the end"
    assert at(Keys.HOME) == "start"
    browser.find_element(By.ID, "single").click()
    assert at(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT) == f"step 2 of {steps}"
    shown = [s for s in browser.find_elements(By.CSS_SELECTOR, ".step") if s.is_displayed()]
    assert [step.get_attribute("id") for step in shown] == ["step-2"]
    browser.set_window_size(500, 900)
    wide = browser.execute_script("return document.documentElement.scrollWidth > innerWidth")
    assert not wide
    assert browser.title == "nim-v0, seed 3"
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


# --- thoughts -----------------------------------------------------------------------------------


@pytest.fixture
def thinking(tmp_path: Path) -> Path:
    """A game of nim whose first step has thoughts that name another move than its reply does."""
    game = srl_envs.play("nim-v0", {0: "strong", 1: "strong"}, seed=3)
    (seat,) = game.steps[0].replies
    thoughts = {seat: f"Perhaps <action>9 9</action>?\n{NASTY}{'long ' * 40}the end of thoughts"}
    steps = (replace(game.steps[0], thoughts=thoughts), *game.steps[1:])
    replace(game, steps=steps).save(tmp_path / "thinking.jsonl")
    return tmp_path / "thinking.jsonl"


def test_thoughts_are_shown_folded_and_apart_from_the_reply(
    thinking: Path, capsys: Streams, tmp_path: Path
) -> None:
    game = srl_envs.load_transcript(thinking)
    assert srl_envs.replay(game) == game
    assert main(["watch", str(thinking), "--all"]) == 0
    folded = capsys.readouterr().out
    assert folded.count("thinks, which the game does not read") == 1
    assert "Perhaps <action>9 9</action>?" in folded
    assert "the end of thoughts" not in folded
    assert main(["watch", str(thinking), "--all", "--full"]) == 0
    assert "the end of thoughts" in capsys.readouterr().out
    html = page(watchable(game))
    (details,) = html.split('<details class="thoughts">')[1:]
    inside, outside = details.split("</details>", 1)
    assert "the end of thoughts" in inside
    assert "<script>" not in inside
    assert "Perhaps" not in outside


def test_a_transcript_without_thoughts_says_nothing_of_them(thinking: Path) -> None:
    game = srl_envs.load_transcript(thinking)
    assert ["thoughts" in step for step in game.data()["steps"]] == [
        bool(step.thoughts) for step in game.steps
    ]
    assert not any("thoughts" in step for step in game.data(thoughts=False)["steps"])
