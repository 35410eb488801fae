"""A run of a board survives kills, plays nothing twice and refuses to become another run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from leaderboards.bundles.agents import parse_entrants
from leaderboards.bundles.run import HEADER, JOURNAL, BoardRun, Declared, opened, read_journal
from leaderboards.bundles.submission import write_bundle
from leaderboards.protocol import Protocol, load_protocol
from srl_agents.agents.prompt_file import PROMPT, PromptSettings, write_prompt
from srl_envs import registry
from srl_envs.errors import ConfigError, SandboxError, SRLError, StoreError, UnknownPolicyError
from srl_envs.foreign_code import load_entry_point

KUHN = "kuhn_poker-v0"


def run(folder: Path, seeds: int = 1, **options: Any) -> BoardRun:
    return BoardRun(load_protocol(KUHN), [], folder, seeds=seeds, **options)


def finished(folder: Path, seeds: int = 1) -> BoardRun:
    with opened(run(folder, seeds)) as found:
        found.play()
    return found


def test_every_match_of_the_schedule_is_in_the_journal_once(tmp_path: Path) -> None:
    found = finished(tmp_path / "run")
    names = [record.spec.match_id for record in read_journal(tmp_path / "run", found.specs)]
    assert sorted(names) == sorted(spec.match_id for spec in found.specs)


def test_the_order_of_play_is_chosen_and_told(tmp_path: Path) -> None:
    """Bots round nothing, so both orders play the same matches."""
    exact = finished(tmp_path / "exact")
    with opened(run(tmp_path / "free", order="free")) as free:
        free.play()
    orders = [json.loads((f.folder / HEADER).read_text())["order"] for f in (exact, free)]
    assert orders == ["exact", "free"]
    claims = [write_bundle(f.folder, tmp_path / "out").claim for f in (exact, free)]
    assert claims[0] == claims[1]
    with pytest.raises(ConfigError, match="order='free', not 'exact'"):
        run(tmp_path / "free")


def test_progress_counts_up_to_the_whole(tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []
    with opened(run(tmp_path / "run")) as found:
        found.play(lambda done, of: progress.append((done, of)))
    assert progress == [(k + 1, 20) for k in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize("cut", [1, 200, 5000])
def test_a_line_that_was_cut_short_is_played_again_and_nothing_else(
    cut: int, tmp_path: Path
) -> None:
    whole = finished(tmp_path / "whole")
    finished(tmp_path / "cut")
    journal = tmp_path / "cut" / JOURNAL
    data = journal.read_bytes()[:-cut]
    journal.write_bytes(data)
    lines = data.count(b"\n")
    progress: list[int] = []
    with opened(run(tmp_path / "cut")) as again:
        assert len(again.done) == lines
        again.play(lambda done, _: progress.append(done))
    assert progress == list(range(lines + 1, 21))
    names = [r.spec.match_id for r in read_journal(tmp_path / "cut", whole.specs)]
    assert len(set(names)) == len(names) == 20
    claims = [write_bundle(tmp_path / n, tmp_path / "out").claim for n in ("whole", "cut")]
    assert claims[0] == claims[1]


def test_a_finished_run_plays_nothing(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    before = (tmp_path / "run" / JOURNAL).read_bytes()
    finished(tmp_path / "run")
    assert (tmp_path / "run" / JOURNAL).read_bytes() == before


def test_an_unfinished_run_makes_no_bundle(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    journal = tmp_path / "run" / JOURNAL
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(StoreError, match="19 of 20 matches"):
        write_bundle(tmp_path / "run", tmp_path / "out")


def test_a_folder_stays_the_run_that_it_is(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    with pytest.raises(ConfigError, match="seeds=1, not 2"):
        run(tmp_path / "run", seeds=2)
    with pytest.raises(ConfigError, match="declared"):
        run(tmp_path / "run", declared=Declared(attempts=2))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(ConfigError, match="holds no run"):
        run(tmp_path / "other")


def test_two_processes_do_not_play_in_one_folder(tmp_path: Path) -> None:
    with opened(run(tmp_path / "run")), pytest.raises(StoreError, match="another process plays"):
        run(tmp_path / "run")
    finished(tmp_path / "run")  # the lock is gone


def test_an_edited_journal_is_refused(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    journal = tmp_path / "run" / JOURNAL
    journal.write_text('["0123", {}, {}, {}]\n' + journal.read_text())
    with pytest.raises(StoreError, match="byte 0: no match of this run"):
        run(tmp_path / "run")


def test_a_bot_of_other_code_is_seen_in_the_header(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    path = tmp_path / "run" / HEADER
    header = json.loads(path.read_text())
    header["agents"][0]["spec"]["bot"] = "strong"
    path.write_text(json.dumps(header))
    with pytest.raises(ConfigError, match="other weights or settings"):
        run(tmp_path / "run")


@pytest.mark.parametrize(
    ("agents", "error", "words"),
    [
        (["bot:strong"], ConfigError, "is a reference"),
        (["strong"], ConfigError, "is a reference"),
        (["bot:strog"], UnknownPolicyError, "Did you mean 'strong'"),
        (["tinny"], UnknownPolicyError, "Did you mean 'tiny'"),
        (["tiny", "tiny"], ConfigError, "given twice"),
        (["a b=tiny"], ConfigError, "agent name"),
        (["=tiny"], ConfigError, "agent name"),
        (["x=bot:strong"], ConfigError, "keeps its own name"),
        (["tiny+nowhere"], UnknownPolicyError, "not an adapter folder"),
        (["bot:random=tiny"], ConfigError, "is a reference"),
    ],
)
def test_agents_that_cannot_enter_are_named_before_anything_is_loaded(
    agents: list[str], error: type[SRLError], words: str
) -> None:
    with pytest.raises(error, match=words):
        parse_entrants(agents, load_protocol(KUHN))


SHOWN = PromptSettings().followed_by((("a card", "<action>bet</action>"),))


@pytest.fixture
def prompted_adapter(tmp_path: Path) -> Path:
    """A folder that names the prompt that its adapter was trained behind; the weights play no part."""
    folder = tmp_path / "alice"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"r": 2, "lora_alpha": 4}')
    save_file({"lora_A": np.zeros((2, 2), np.float32)}, folder / "adapter_model.safetensors")
    write_prompt(folder, SHOWN)
    return folder


def test_an_adapter_brings_the_prompt_that_it_was_trained_behind(prompted_adapter: Path) -> None:
    protocol = load_protocol(KUHN)
    adapter = f"tiny+{prompted_adapter}"
    found = parse_entrants([adapter, "tiny"], protocol)
    assert {e.name: e.candidate.prompt for e in found} == {
        "alice": SHOWN,
        "tiny": PromptSettings(),
    }


def test_a_prompt_is_read_from_a_file_a_recipe_and_the_folder_of_a_run_or_an_adapter(
    prompted_adapter: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "name: x\nprompt:\n  system: Be brief.\n  examples: [{observation: a, reply: b}]\n"
    )
    brief = PromptSettings(system="Be brief.").followed_by((("a", "b"),))
    protocol = load_protocol(KUHN)
    for file, wanted in (
        (recipe, brief),
        (tmp_path, brief),
        (prompted_adapter, SHOWN),
        (prompted_adapter / PROMPT, SHOWN),
    ):
        agents = [
            "one=tiny",
            f"other=tiny?prompt={file}",
            f"a=tiny+{prompted_adapter}?prompt={file}",
        ]
        shown = {e.name: e.candidate.prompt for e in parse_entrants(agents, protocol)}
        assert shown == {"one": PromptSettings(), "other": wanted, "a": wanted}


@pytest.mark.parametrize(
    ("text", "agent", "words"),
    [
        (None, "tiny?prompt=nowhere.yaml", "nowhere.yaml"),
        ("name: x\nmodel: tiny\n", "tiny?prompt={file}", "it shows nothing"),
        ("prompt: {sytem: x}\n", "tiny?prompt={file}", "Did you mean 'system'"),
        ("prompt: [\n", "tiny?prompt={file}", "is not YAML"),
        (None, "tiny?prompt=", "name a file"),
        (None, "bot:held_out?prompt={file}", "no bot"),
    ],
)
def test_prompts_that_cannot_be_meant_are_refused_before_anything_is_loaded(
    text: str | None, agent: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "other.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SRLError, match=words):
        parse_entrants([agent.format(file=file)], load_protocol(KUHN))


@pytest.mark.parametrize("tokens", [0, 129])
def test_replies_stay_within_the_limit_of_the_protocol(tokens: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 to 128"):
        run(tmp_path / "run", max_new_tokens=tokens)


# --- void matches ----------------------------------------------------------------------------

calls = {"left": 0}


def shaky(rng: np.random.Generator) -> Callable[[str], str]:
    """A bot that raises ``calls`` times."""
    bot = load_entry_point(registry.spec(KUHN).bots["middle"])(rng)

    def act(text: str) -> str:
        if calls["left"] > 0:
            calls["left"] -= 1
            raise RuntimeError("a disk was full")
        return str(bot(text))

    return act


@pytest.fixture
def shaky_protocol(monkeypatch: pytest.MonkeyPatch) -> Protocol:
    known = registry.spec(KUHN)
    bots = {**known.bots, "middle": "test_board_run:shaky"}
    monkeypatch.setitem(
        registry._SPECS, "shaky_poker-v0", replace(known, id="shaky_poker-v0", bots=bots)
    )
    return replace(load_protocol(KUHN), name="shaky_poker-v0", env="shaky_poker-v0")


def test_a_void_match_is_played_again_and_its_fault_is_kept(
    shaky_protocol: Protocol, tmp_path: Path
) -> None:
    calls["left"] = 2
    with opened(BoardRun(shaky_protocol, [], tmp_path / "run", seeds=1)) as found:
        found.play()
    faults = [r.faults for r in read_journal(tmp_path / "run", found.specs) if r.faults]
    assert sum(map(len, faults)) == 2
    assert "a disk was full" in faults[0][0]


def test_a_match_that_stays_void_stops_the_run_which_then_goes_on(
    shaky_protocol: Protocol, tmp_path: Path
) -> None:
    calls["left"] = 10_000
    with opened(BoardRun(shaky_protocol, [], tmp_path / "run", seeds=1)) as found:
        with pytest.raises(
            SandboxError, match=r"8 matches are void after 3 tries.*a disk was full"
        ):
            found.play()
        assert len(found.done) == 12
    calls["left"] = 0
    with opened(BoardRun(shaky_protocol, [], tmp_path / "run", seeds=1)) as found:
        found.play()
        assert len(found.done) == 20


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 9, 30])
def test_a_killed_run_goes_on_and_claims_what_an_undisturbed_one_does(
    after: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "srl_agents.cli.main", "leaderboard", "run", KUHN]
    command += ["--seeds", "2", "--out", str(tmp_path / "killed")]
    journal = tmp_path / "killed" / KUHN / JOURNAL
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while process.poll() is None and (
        not journal.is_file() or journal.read_bytes().count(b"\n") < after
    ):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    played = journal.read_bytes()
    whole = played[: played.rfind(b"\n") + 1]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert journal.read_bytes().startswith(whole)  # nothing that was played is played again
    finished(tmp_path / "calm", seeds=2)
    claims = [write_bundle(f, tmp_path / "out").claim for f in (journal.parent, tmp_path / "calm")]
    assert claims[0] == claims[1]
