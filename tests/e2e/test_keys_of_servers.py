"""A server that repeats its key in every form: no file, page, line or exception of ours shows it."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from srl_agents.cli.main import main
from srl_agents.engines.endpoint.client import EndpointEngine
from srl_agents.engines.endpoint.settings import API_KEY, Account, EndpointSettings
from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.engines.vllm.server import VLLMServer
from srl_agents.league.store.history import LeagueStore
from srl_envs.errors import ModelError
from srl_envs.redaction import HIDDEN
from tests.chat_server import MODEL, ChatServer, chat_server
from tests.key_forms import ENCODED, KeySearch, forms

pytestmark = pytest.mark.slow


ENV = "kuhn_poker-v0"
KEY = "sk-test-Q7vXz0pL_mN4sK9wR"
FORMS = [form for form, _, _ in forms(KEY)]
LINES = [form for form in FORMS if form.isprintable() and len(form) < 150]
"""What fits into a name or a header."""
_IN_A_REPLY = 60


@pytest.fixture(scope="module")
def search() -> KeySearch:
    return KeySearch(KEY)


@pytest.fixture
def parrot(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """It plays, and repeats the key wherever a server can write."""
    monkeypatch.setenv(API_KEY, KEY)
    turns = itertools.count()

    def reply(_: object) -> dict[str, Any]:
        begin = next(turns) * _IN_A_REPLY % len(FORMS)
        said = " ".join(FORMS[begin : begin + _IN_A_REPLY])
        return {"content": f"{said} <action>check</action>", "reasoning_content": said[::-1] + said}

    with chat_server(
        key=KEY,
        reply=reply,
        models=(MODEL, *LINES),
        model=f"parrot of {KEY} and {ENCODED['base64'](KEY)}",
        fingerprint=f"{KEY[::-1]} {KEY.encode().hex()}",
        finish=KEY,
        usage={"prompt_tokens": 40, KEY: KEY},
        answer_headers={"Retry-After": KEY, "X-Key": KEY, "Set-Cookie": f"key={KEY}; Path=/{KEY}"},
    ) as server:
        yield server


def require_hidden(
    search: KeySearch, folder: Path, capsys: pytest.CaptureFixture[str], least_files: int
) -> None:
    """Nothing in the folder nor in what was printed; and something was hidden."""
    printed = capsys.readouterr()
    assert not search.left_in((printed.out + printed.err).encode())
    assert not search.left_below(folder)
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert sum(HIDDEN.encode() in data for data in files) >= least_files


def test_the_search_finds_each_form_in_a_file(search: KeySearch, tmp_path: Path) -> None:
    for form in FORMS:
        (tmp_path / "file").write_text(f"before {form} behind")
        assert search.left_below(tmp_path) or "%42%65" in form or "\\u0042" in form


def test_a_league(
    parrot: ChatServer, search: KeySearch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"name: a\nenv: {ENV}\nmatches: 4\nmatchmaking: {{block: 4}}\nagents:\n"
        f"  - {{agent: middle, role: anchor}}\n  - {{agent: 'openai:{MODEL}@{parrot.url}', name: me}}\n"
    )
    run = tmp_path / "run"
    assert main(["league", "run", str(recipe), "--out", str(run)]) == 0
    assert main(["league", "status", str(run)]) == 0
    with LeagueStore(run / "league.db", mode="read") as store:
        assert any("me" in spec.seats for spec, _ in store.matches())
    require_hidden(search, tmp_path, capsys, least_files=1)


def test_games_on_the_screen_and_in_a_file(
    parrot: ChatServer, search: KeySearch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = f"openai:{MODEL}@{parrot.url}"
    assert main(["play", ENV, agent, "middle", "--save", str(tmp_path / "game.json")]) == 0
    assert main(["watch", ENV, agent, "middle", "--all"]) == 0
    assert main(["play", ENV, f"openai:no-such-model@{parrot.url}", "middle"]) == 2
    require_hidden(search, tmp_path, capsys, least_files=1)


@pytest.mark.nightly
def test_a_bundle_for_a_board(
    parrot: ChatServer, search: KeySearch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = f"me=openai:{MODEL}@{parrot.url}"
    run = str(tmp_path / "run")
    played = ["leaderboard", "run", ENV, "--seeds", "1", "--out", run, "--agent", agent]
    assert main([*played, "--unregistered"]) == 0
    assert main(["leaderboard", "bundle", run]) == 0
    require_hidden(search, tmp_path, capsys, least_files=2)


def test_training_against_it(
    parrot: ChatServer, search: KeySearch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, run = tmp_path / "recipe.yaml", tmp_path / "run"
    agent = f"openai:{MODEL}@{parrot.url}"
    recipe.write_text(
        f"name: guests\nmodel: tiny\nenv: {ENV}\nupdates: 1\nlearners: [alice]\n"
        "lora: {rank: 2, alpha: 4}\nrollout: {start_states: 1, group_size: 2, max_new_tokens: 3}\n"
        f"opponents: {{mirror: 0, live: 0, past: 0, agents: {{'{agent}': 1}},\n"
        f"  budgets: {{'{agent}': {{requests: 1000}}}}}}\n"
        f"evaluation: {{every: 1, pairs: 1, final_pairs: 1, bots: [], agents: ['{agent}']}}\n"
    )
    assert (
        main(
            [
                "train",
                str(recipe),
                "--out",
                str(run),
                "--set",
                "survival.allow_nothing_learned=true",
            ]
        )
        == 0
    )
    assert main(["report", str(run)]) == 0
    require_hidden(search, tmp_path, capsys, least_files=2)


def message(url: str) -> str:
    """Of the error with which an endpoint is refused."""
    engine = EndpointEngine(EndpointSettings(account=Account(url=url), model=MODEL))
    engine.retries = 0
    with pytest.raises(ModelError) as caught:
        engine.check()
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return f"{caught.value!r} {caught.value}"


def test_errors(parrot: ChatServer, search: KeySearch) -> None:
    parrot.listed = ()
    for number, form in enumerate(FORMS[::13]):
        status = (400, 402, 404, 429, 500)[number % 5]
        parrot.refusals = [(status, f"a bad key: {form}")] * 2
        text = message(parrot.url)
        assert str(status) in text
        assert HIDDEN in text
        assert not search.left_in(text.encode())
    for form in LINES[::20]:
        parrot.body = f"<html>{form}</html>".encode("utf-16" if "sk" in form else "utf-8")
        assert HIDDEN in (text := message(parrot.url))
        assert not search.left_in(text.encode())


@contextmanager
def line_server(answer: bytes) -> Iterator[str]:
    """Sends the same bytes to everybody, whether they are HTTP or not."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return
            with link:
                link.recv(1 << 16)
                link.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        f"HTTP/1.1 500 {KEY}\r\nX-Key: {KEY}\r\nContent-Length: 0\r\n\r\n",
        f"HTTP/1.1 307 {KEY}\r\nLocation: http://127.0.0.1:9/{KEY}\r\nContent-Length: 0\r\n\r\n",
        f"HTTP/1.1 200 OK\r\n{KEY} is not a header\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nContent-Length: {KEY}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 25\r\n\r\n{KEY}",
        f"{KEY} is not HTTP\r\n\r\n",
    ],
)
def test_what_is_hardly_http(
    answer: str,
    search: KeySearch,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither the error nor a log of everything below it shows the key."""
    monkeypatch.setenv(API_KEY, KEY)
    caplog.set_level(logging.DEBUG)
    with line_server(answer.encode()) as url:
        text = message(url)
    assert url in text
    assert not search.left_in(text.encode() + caplog.text.encode())


def test_a_vllm_that_we_start_inherits_no_key(
    search: KeySearch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is a file of the run, and any client of the server could make it print what it has."""
    python, providers = tmp_path / "python", tmp_path / "providers.yaml"
    python.write_text("#!/bin/sh\nenv\nexit 1\n")
    python.chmod(0o755)
    providers.write_text("providers: {a: {url: 'http://h/v1', key_env: OWN_NAME}}")
    monkeypatch.setenv("SRL_PROVIDERS", str(providers))
    for name in (API_KEY, "OWN_NAME", "OTHER_API_KEY", "THE_SAME_AGAIN"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("HF_TOKEN", "stays")
    server = VLLMServer(VLLMServerSettings(model="m", python=str(python)), tmp_path / "log")
    with pytest.raises(ModelError, match="the vLLM server ended") as caught:
        server.start()
    server.close()
    assert "HF_TOKEN=stays" in (tmp_path / "log").read_text()
    assert not search.left_below(tmp_path)
    assert not search.left_in(str(caught.value).encode())
