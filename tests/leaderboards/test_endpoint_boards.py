"""Boards with several endpoints: all are asked at once, and no reply is asked for twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from leaderboards.bundles.submission import open_bundle
from leaderboards.bundles.verify import verify
from leaderboards.pages.entries import usage_of
from leaderboards.redteam.forger import Forger
from srl_agents.engines.endpoint.providers import PROVIDERS
from tests.chat_server import MODEL, ChatServer, chat_server
from tests.leaderboards.command import main

KEY = "sk-never-written"
MODELS = (MODEL, "org/two", "org/three", "org/four")
USAGE = {
    "prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49,
    "completion_tokens_details": {"reasoning_tokens": 5},
    "prompt_tokens_details": {"cached_tokens": 32},
}  # fmt: skip


def a_providers_file(folder: Path, url: str) -> Path:
    (folder / "prices.yaml").write_text(
        "date: 2026-11-22\nsource: https://example.com/pricing\n"
        f"prices: {{here: {{{MODEL}: {{input: 1, cached_input: 0.5, output: 10}}}}}}\n"
    )
    path = folder / "providers.yaml"
    path.write_text(
        f"prices: prices.yaml\nproviders:\n  here:\n    url: {url}\n    key_env: HERE_KEY\n"
        f"    models: {{{MODEL}: {{max_thought_tokens: 64, extra: {{reasoning_effort: low}}}}}}\n"
    )
    return path


def asked(server: ChatServer) -> Counter[str]:
    """How often each chat was asked for; equal chats of two matches are two requests."""
    return Counter(json.dumps([r["model"], r["messages"]]) for r in server.requests)


def arguments(out: Path, url: str, *models: str, seeds: int = 1) -> list[str]:
    agents = [f"--agent=m{k}=openai:{model}@{url}" for k, model in enumerate(models)]
    return [
        "run",
        "nim-v0",
        "--seeds",
        str(seeds),
        "--out",
        str(out),
        "--unregistered",
        "--json",
        *agents,
    ]


def _interruptible() -> None:
    """A shell starts what runs in the background with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def journaled(out: Path) -> int:
    path = out / "nim-v0/replies.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_four_models_are_asked_side_by_side_and_64_at_once_in_all(tmp_path: Path) -> None:
    with chat_server(models=MODELS, gathers=64) as server:
        assert main(arguments(tmp_path / "run", server.url, *MODELS, seeds=2)) == 0
        assert server.at_once == 64


def test_usage_cost_and_thinking_are_in_the_bundle_and_no_key_is_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERE_KEY", KEY)
    message = {"role": "assistant", "content": f"{KEY} <action>1</action>", "reasoning": KEY}
    refusals = [(500, f"odd key {KEY}")] * 2
    with chat_server(
        key=KEY, usage=USAGE, reply=lambda _: message, refusals=refusals, fingerprint="fp_7"
    ) as server:
        monkeypatch.setenv(PROVIDERS, str(a_providers_file(tmp_path, server.url)))
        # the greeting gets one retry, so one refusal is left for the first real request
        server.refusals.pop()
        assert main(arguments(tmp_path / "run", "here", MODEL)) == 0
    reported = json.loads(capsys.readouterr().out)[0]["endpoints"]["m0"]
    assert main(["bundle", str(tmp_path / "run")]) == 0
    for path in (tmp_path / "run").rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
    bundle = open_bundle(next((tmp_path / "run/bundles/nim-v0").iterdir()))
    (me,) = bundle.entrants
    assert me.spec["thinking"] == {"max_thought_tokens": 64, "extra": '{"reasoning_effort":"low"}'}
    replies = [
        turn for record in bundle.records() for turns in record.served.values() for turn in turns
    ]
    one = (8 * 1 + 32 * 0.5 + 9 * 10) / 1e6
    assert [reply.cost for reply in replies] == pytest.approx([one] * len(replies))
    assert (reported["replies"], reported["cost"]) == (
        len(replies),
        pytest.approx(one * len(replies)),
    )
    assert (reported["reasoning_tokens"], reported["fingerprints"]) == (5 * len(replies), ["fp_7"])
    verdict = verify(bundle.folder, "L2", workers=0)
    assert verdict.accepted, verdict.rejected
    assert 0 < reported["seconds"] == pytest.approx(bundle.manifest["provenance"]["seconds"]["m0"])
    assert {reply.seconds for reply in replies} == {None}  # a claim holds no times
    entry = type("AnEntry", (), {"bundle": bundle})()
    shown = usage_of([entry])[bundle.root, "m0"]
    assert (shown["cost"], shown["currency"], shown["price_date"]) == (
        reported["cost"], "USD", "2026-11-22",
    )  # fmt: skip
    assert shown["seconds"] == bundle.manifest["provenance"]["seconds"]["m0"]

    forged = Forger.of(bundle, tmp_path / "forged")
    forged.manifest["claim"]["prices"]["m0"]["tokens"]["output"] = 1.0
    assert "by tokens and price it is" in verify(forged.rehash(), "L0").rejected
    forged = Forger.of(bundle, tmp_path / "stranger")
    forged.manifest["claim"]["prices"]["bot:strong"] = forged.manifest["claim"]["prices"]["m0"]
    assert "is not an agent behind an endpoint" in verify(forged.rehash(), "L0").rejected
    forged = Forger.of(bundle, tmp_path / "extra")
    forged.manifest["claim"]["agents"][-1]["spec"]["thinking"]["extra"] = '{"stream":true}'
    assert "extra.stream" in verify(forged.rehash(), "L0").rejected


def test_a_run_of_nothing_but_failures_stops_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chat_server() as server:

        def reply(_: object) -> str:
            server.refusals[:] = [(500, "down")] * 10_000
            return "hello"

        server.reply = reply
        assert main([*arguments(tmp_path / "run", server.url, MODEL), "--deadline-s", "0.5"]) == 2
    reported = capsys.readouterr().err.splitlines()
    assert "server_error" in reported[-1]
    assert "replies in a row were lost: stopped" in reported[-1]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_stopped_asks_for_nothing_that_it_has(how: int, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with chat_server(models=MODELS, delay_s=0.1) as server:
        command = ["-m", "srl_agents.cli.main", "leaderboard", *arguments(out, server.url, *MODELS)]
        code = "import sys; from srl_agents.cli.main import main; sys.exit(main())"
        with subprocess.Popen(
            [sys.executable, "-c", code, *command[2:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            preexec_fn=_interruptible,  # noqa: PLW1509 - nothing else runs in the child yet
        ) as run:
            while journaled(out) < 60 and run.poll() is None:
                time.sleep(0.02)
            os.kill(run.pid, how)
            run.communicate()
        kept, before = journaled(out), len(server.requests)
        assert kept >= 60
        if how == signal.SIGINT:
            assert kept == before  # those under way were waited for
        assert main(arguments(out, server.url, *MODELS)) == 0
        assert len(server.requests) - before == journaled(out) - kept
        total = len(server.requests)
        # a reply that was on its way when the process was killed is the only one that may come twice
        assert total - journaled(out) == before - kept <= 64
        assert main(arguments(out, server.url, *MODELS)) == 0
        assert len(server.requests) == total


def test_providers_by_name_are_planned_and_asked_each_with_its_own_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three makers, four models and two games in one command; the file only moves their addresses here."""
    keys = {"OPENAI_API_KEY": "sk-one-one-one", "ANTHROPIC_API_KEY": "sk-two-two-two"}
    for variable, key in keys.items():
        monkeypatch.setenv(variable, key)
    with chat_server(models=("m1", "m2")) as one, chat_server(models=("m3",)) as two:
        path = tmp_path / "providers.yaml"
        path.write_text(
            f"providers:\n  openai: {{url: {one.url}, key_env: OPENAI_API_KEY}}\n"
            f"  anthropic: {{url: {two.url}, key_env: ANTHROPIC_API_KEY}}\n"
        )
        monkeypatch.setenv(PROVIDERS, str(path))
        agents = ["a=openai:m1", "b=openai:m2", "c=anthropic:m3", "d=openai:m3@anthropic"]
        games = ["kuhn_poker-v0", "nim-v0", "--seeds", "1", "--json"]
        games += [f"--agent={agent}" for agent in agents]
        assert main(["plan", *games]) == 0
        planned = json.loads(capsys.readouterr().out)["agents"]
        assert not one.requests
        assert {row["agent"] for row in planned} == {*"abcd"}
        assert main(["run", *games, "--out", str(tmp_path / "run"), "--unregistered"]) == 0
        played = json.loads(capsys.readouterr().out)
    assert [entry["env"] for entry in played] == ["kuhn_poker-v0", "nim-v0"]
    assert all({*entry["endpoints"]} == {*"abcd"} for entry in played)
    matches = {row["agent"]: 0 for row in planned}
    for row in planned:
        matches[row["agent"]] += row["matches"]
    assert len({*matches.values()}) == 1
    for server, key in ((one, keys["OPENAI_API_KEY"]), (two, keys["ANTHROPIC_API_KEY"])):
        assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {key}"}
