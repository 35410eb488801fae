"""Models behind endpoints: they play, their bundles replay, and no level claims to have audited them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leaderboards.boards.archive import read_board
from leaderboards.boards.publishing import publish
from leaderboards.bundles.submission import Bundle, open_bundle
from leaderboards.bundles.verify import verify
from leaderboards.pages.build import board_site
from leaderboards.redteam.forger import Forger
from srl_agents.engines.endpoint.settings import API_KEY
from srl_agents.records import Served
from srl_envs.errors import ConfigError
from tests.chat_server import DATED, MODEL, ChatServer, chat_server
from tests.leaderboards.command import main

KEY = "sk-never-written"
ROW = ["stop", 40, 9, None, None, None, DATED, "", []]


def run(
    folder: Path, server: ChatServer, *more: str, prompt: str = "", board: Path | None = None
) -> int:
    """Play, with a ticket of the board if one is given."""
    asked = ["--agent", f"me=openai:{MODEL}@{server.url}{prompt}"]
    played = ["run", "kuhn_poker-v0", "--seeds", "1", "--out", str(folder), "--json"]
    if board is None:
        return main([*played, *asked, *more, "--unregistered"])
    entry = str(folder.parent / "entry")
    assert main(["register", "kuhn_poker-v0", "--seeds", "1", "--out", entry, *asked, *more]) == 0
    assert main(["draw", entry, "--board", str(board)]) == 0
    return main([*played, *asked, *more, "--tickets", entry])


def asked(**change: Any) -> dict[str, Any]:
    return {"api": "openai-chat", "url": "http://h/v1", "model": "m", "reported": "m-1", **change}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A model that bets, behind a prompt; its server requires a key."""
    folder = tmp_path_factory.mktemp("served")
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        "prompt: {system: Be brief., examples: [{observation: a card, reply: bet}]}\n"
    )
    usage = {"prompt_tokens": 40, "completion_tokens": 9}
    with pytest.MonkeyPatch.context() as patch, chat_server(key=KEY, usage=usage) as server:
        patch.setenv(API_KEY, KEY)
        assert run(folder / "run", server, prompt=f"?prompt={recipe}") == 0
    assert main(["bundle", str(folder / "run"), "--with-adapters"]) == 0
    for path in folder.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
    return open_bundle(next((folder / "run/bundles/kuhn_poker-v0").iterdir()))


def test_a_bundle_of_a_served_model_says_who_was_asked_and_how(bundle: Bundle) -> None:
    (me,) = bundle.entrants
    where = me.spec["endpoint"]
    assert (where["api"], where["model"], where["reported"]) == ("openai-chat", MODEL, DATED)
    assert where["url"].startswith("http://127.0.0.1:")
    assert me.spec == {
        "endpoint": where,
        "shown": {"system": "Be brief.", "examples": [{"observation": "a card", "reply": "bet"}]},
        "sampling": {"temperature": 1.0, "max_new_tokens": 128},
        "stop": ["</action>"],
        "parser": "kuhn_poker-v0",
    }
    replies = [
        step.replies[seat]
        for record in bundle.records()
        for step in record.transcript.steps
        for seat in step.replies
        if record.spec.seats[seat] == "me"
    ]
    assert set(replies) == {"<action>bet</action>"}
    assert not (bundle.folder / "tokens.jsonl.xz").exists()


def test_a_bundle_holds_what_the_endpoint_reported_of_each_reply(bundle: Bundle) -> None:
    served = Served(finish="stop", prompt_tokens=40, completion_tokens=9, model=DATED)
    for record in bundle.records():
        replied = {
            seat: sum(seat in step.replies for step in record.transcript.steps)
            for seat, name in enumerate(record.spec.seats)
            if name == "me"
        }
        assert record.served == {seat: (served,) * turns for seat, turns in replied.items()}
        lines = {str(seat): [ROW] * turns for seat, turns in replied.items()}
        assert record.lines[0].get("served", {}) == lines


@pytest.mark.slow
def test_a_board_tells_a_reply_that_was_cut_from_one_that_was_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are empty and malformed; the bundle, its verification and the viewer say why."""
    ends = itertools.cycle(["length", "content_filter", "stop"])
    with chat_server(reply=lambda _: None) as server:

        def reply(_: object) -> str | None:
            server.finish = next(ends)
            return "<action>bet</action>" if server.finish == "stop" else None

        server.reply = reply
        assert run(tmp_path / "run", server, board=tmp_path / "board") == 0
    assert main(["bundle", str(tmp_path / "run")]) == 0
    (folder,) = (tmp_path / "run/bundles/kuhn_poker-v0").iterdir()
    verdict = verify(folder, "L2", workers=0)
    assert verdict.accepted, verdict.rejected
    notes = "\n".join(verdict.notes)
    assert re.search(r"me: \d+ of \d+ replies were cut by the length limit", notes)
    assert re.search(r"me: \d+ of \d+ replies were refused by the model", notes)
    assert publish(open_bundle(folder), verdict, tmp_path / "board")
    (group,) = read_board(tmp_path / "board").groups
    assert [entry.level for entry in group.entries] == ["L2"]
    _, episodes = board_site(tmp_path / "board")
    finishes = {
        (episode["seats"][turn["seat"]], turn["finish"])
        for episode in episodes
        for turns in episode["steps"]
        for turn in turns
        if turn["reply"] is not None
    }
    assert {finish for name, finish in finishes if name == "me"} == {"length", "refused", "stop"}
    assert {finish for name, finish in finishes if name != "me"} == {None}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda served: served.clear(), "reported"),
        (lambda served: served["0"].pop(), "reported"),
        (lambda served: served["0"].append(ROW), "reported"),
        (lambda served: served.update({"1": [ROW]}), "reported"),
        (lambda served: served.update({"7": []}), "reported"),
        (lambda served: served.update({"00": served.pop("0")}), "number of a seat"),
        (lambda served: served["0"][0].__setitem__(0, "won"), "'stop' or 'length'"),
        (lambda served: served["0"][0].__setitem__(1, True), "an integer from 0"),
        (lambda served: served["0"][0].__setitem__(1, -1), "an integer from 0"),
        (lambda served: served["0"][0].__setitem__(2, 1.0), "an integer from 0"),
        (lambda served: served["0"][0].__setitem__(5, 0.1), "by tokens and price it is None"),
        (lambda served: served["0"][0].__setitem__(5, -0.1), "a number with a point"),
        (
            lambda served: served["0"][0].__setitem__(6, "another"),
            "a reply of it is from 'another'",
        ),
        (lambda served: served["0"][0].__setitem__(7, "a\nb"), "text, at most 200"),
        (lambda served: served["0"][0].__setitem__(8, ["tired"]), "'rate_limited' or"),
        (lambda served: served["0"][0].append(0), "list of 9 entries"),
        (lambda served: served["0"].__setitem__(0, None), "list of 9 entries"),
    ],
)
def test_reports_that_fit_no_replies_are_refused(
    change: Callable[[Any], object], words: str, bundle: Bundle, tmp_path: Path
) -> None:
    forged = Forger.of(bundle, tmp_path)
    place = next(k for k, spec in enumerate(bundle.specs) if spec.seats[0] == "me")
    change(forged.matches[place]["served"])
    verdict = verify(forged.rehash(), "L0")
    assert verdict.reached is None
    assert words in verdict.rejected


def test_a_bot_reports_nothing(bundle: Bundle, tmp_path: Path) -> None:
    forged = Forger.of(bundle, tmp_path)
    place = next(k for k, spec in enumerate(bundle.specs) if "me" not in spec.seats)
    forged.matches[place]["served"] = {"0": [ROW]}
    assert "reported" in verify(forged.rehash(), "L0").rejected


def test_it_holds_at_l2_and_l3_is_refused_by_name(bundle: Bundle, tmp_path: Path) -> None:
    verdict = verify(bundle.folder, "L2", workers=0)
    assert verdict.accepted, verdict.rejected
    assert "me answered through an endpoint: its weights cannot be checked" in verdict.notes
    with pytest.raises(ConfigError, match="agent me was not registered with a board"):
        publish(bundle, verdict, tmp_path / "board")

    audited = verify(bundle.folder, "L3", workers=0)
    assert audited.reached == "L2"
    assert "agent me answered through an endpoint: it has no weights to audit" in audited.rejected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"endpoint": None}, "endpoint is null"),
        (
            {"endpoint": {"api": "openai-chat", "url": "http://h/v1"}},
            "(model is missing|api is|more is unknown)",
        ),
        ({"endpoint": asked(api="telnet")}, "(model is missing|api is|more is unknown)"),
        ({"endpoint": asked(more=1)}, "(model is missing|api is|more is unknown)"),
        ({"endpoint": asked(url="h")}, "give an address"),
        ({"endpoint": asked(url=7)}, "endpoint.(url|model) is"),
        ({"endpoint": asked(model={})}, "endpoint.(url|model) is"),
        ({"endpoint": asked(reported=None)}, "endpoint.reported is"),
        ({"endpoint": asked(reported="a" * 201)}, "endpoint.reported is"),
        ({"endpoint": asked(reported="a\n")}, "endpoint.reported is"),
        ({"base": "tiny"}, "base and endpoint"),
        ({"sampling": {"temperature": 0.0, "max_new_tokens": 128}}, "sampling"),
        ({"stop": []}, "stop"),
        ({"shown": {}}, "shown"),
        ({"shown": {"system": "\ud800", "examples": []}}, "surrogate"),
    ],
)
def test_a_served_model_that_declares_something_else_may_not_enter(
    change: dict[str, object], words: str, bundle: Bundle, tmp_path: Path
) -> None:
    forged = Forger.of(bundle, tmp_path)
    forged.manifest["claim"]["agents"][-1]["spec"] |= change
    verdict = verify(forged.rehash(), "L0")
    assert verdict.reached is None
    assert re.search(r"agent me: |agents\[5\] \('me'\)", verdict.rejected)
    assert re.search(words, verdict.rejected)


def test_an_edited_reply_of_a_served_model_does_not_replay(bundle: Bundle, tmp_path: Path) -> None:
    """The forger hashes everything again, and keeps what the reply came to."""
    forged = Forger.of(bundle, tmp_path)
    place = next(k for k, spec in enumerate(bundle.specs) if spec.seats[0] == "me")
    steps = forged.transcripts[place]["steps"]
    replies = next(step["replies"] for step in steps if "0" in step["replies"])
    replies["0"] = "<action>bet</action>" if "check" in replies["0"] else "<action>check</action>"
    forged.recompute_ratings()
    verdict = verify(forged.rehash(), "L2", workers=0)
    assert verdict.reached == "L1"
    assert f"record {place} " in verdict.rejected


# --- the command -----------------------------------------------------------------------------


def test_a_run_goes_on_where_the_endpoint_went_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "run/kuhn_poker-v0/matches.jsonl"
    with chat_server() as server:

        def reply(_: object) -> str:
            if journal.exists() and journal.stat().st_size:
                server.refusals[:] = [(403, "quota")] * 2
            return "<action>check</action>"

        server.reply = reply
        assert run(tmp_path / "run", server) == 2
        assert "refuses no key (403)" in capsys.readouterr().err
        done = journal.read_bytes().count(b"\n")
        server.refusals.clear()
        server.reply = lambda _: "<action>check</action>"
        assert run(tmp_path / "run", server) == 0
        (played,) = json.loads(capsys.readouterr().out)
        assert played["played_before"] == done
        assert played["matches"] > done > 0


def test_a_provider_that_changes_the_model_midway_ends_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "run/kuhn_poker-v0/matches.jsonl"
    with chat_server() as server:

        def reply(_: object) -> str:
            if journal.exists() and journal.stat().st_size:
                server.model = "org/parrot-2026-06-01"
            return "<action>check</action>"

        server.reply = reply
        assert run(tmp_path / "run", server) == 2
        assert f"answered as '{DATED}' before" in capsys.readouterr().err
        assert run(tmp_path / "run", server) == 2  # nor does the other model go on in this folder
        assert f"answered as '{DATED}' before" in capsys.readouterr().err
        server.model, server.reply = DATED, lambda _: "<action>check</action>"
        assert run(tmp_path / "run", server) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agent", "openai:m@"], "write openai:MODEL@URL"),
        (["--agent", "antropic:m"], "Did you mean 'anthropic'?"),
        (["--agent", "openai:@http://host"], "write openai:MODEL@URL"),
        (["--agent", "openai:m@host"], "give an address"),
        (["--agent", "openai:m@http://a:b@host/v1"], API_KEY),
        (["--agent", "openai:m@http://127.0.0.1:9/v1"], "no server answers"),
        (["--agent", "_a=tiny"], "agent name '_a'"),
        (["--agent", "openai:m@http://127.0.0.1:9/v1", "--concurrency", "0"], "concurrency"),
        (["--agent", "human"], "no person can give moves on a board"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "kuhn_poker-v0", "--out", str(tmp_path / "run"), "--unregistered"]
    assert main([*command, *arguments]) == 2
    printed = capsys.readouterr().err
    assert words in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "run/kuhn_poker-v0/run.json").exists()


def test_all_agents_that_cannot_enter_are_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = ["tinny", "_a=tiny", "tiny+nowhere", "openai:m@http://127.0.0.1:9/v1"]
    given = [part for agent in agents for part in ("--agent", agent)]
    command = ["run", "kuhn_poker-v0", "nim-v0", "--out", str(tmp_path / "run"), "--unregistered"]
    assert main([*command, *given]) == 2
    printed = capsys.readouterr().err
    for words in ("'tiny'", "agent name '_a'", "not an adapter folder", "no server answers"):
        assert words in printed


def test_a_server_that_was_not_up_yet_does_not_spoil_the_folder(tmp_path: Path) -> None:
    early = ["--agent", "openai:m@http://127.0.0.1:9/v1"]
    assert main(["run", "kuhn_poker-v0", "--out", str(tmp_path / "run"), *early]) == 2
    with chat_server() as server:
        assert run(tmp_path / "run", server) == 0
