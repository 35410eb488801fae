"""A person behind a chat API: no question is lost or asked twice, and a run learns against the person."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from srl_agents.cli.pages.desk import handler
from srl_agents.cli.pages.desk.handler import desk_server
from srl_agents.cli.pages.desk.questions import (
    LEFT_S,
    MOST_QUESTIONS,
    RESIGNED,
    Desk,
    PausedError,
)
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError, LostReplyError
from tests.browser import chromium, violations
from tests.chat_server import chat_server
from tests.srl_agents.engines.test_endpoint_tries import an_engine, ask
from tests.training_runs import train_run

CHAT = [{"role": "user", "content": "Your turn."}]
HEADERS = {"Content-Type": "application/json"}


@contextmanager
def a_person(url: str, reply: Callable[[str], str], after_s: float = 0.0) -> Iterator[list[int]]:
    """Answers what waits, from another thread; gives the numbers of the questions."""
    seen: list[int] = []
    over = threading.Event()

    def sit() -> None:
        with httpx2.Client(base_url=url, trust_env=False) as client:
            while not over.wait(0.01):
                for question in client.get("/waiting").json()["questions"]:
                    if question["number"] not in seen:
                        seen.append(question["number"])
                        time.sleep(after_s)
                        text = reply(question["chat"][-1]["content"])
                        client.post("/reply", json={"number": question["number"], "reply": text})

    thread = threading.Thread(target=sit, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


class AtDesk:
    """What `an_engine` needs of a server."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}/v1"


def test_a_port_that_is_none_is_said() -> None:
    with (
        pytest.raises(ConfigError, match="99999 cannot be served"),
        desk_server(Desk(), "127.0.0.1", 99999),
    ):
        pass


def test_a_client_that_gave_up_and_asks_again_finds_its_question() -> None:
    settings: dict[str, Any] = {"model": "human", "timeout_s": 1.0, "deadline_s": 30.0}
    with (
        desk_server(Desk(), "127.0.0.1", 0) as url,
        a_person(url, lambda _: "bet", after_s=2.5) as seen,
        an_engine(AtDesk(url), **settings) as engine,  # type: ignore[arg-type]
    ):
        (reply,) = ask(engine)
        assert reply.text == "<action>bet</action>"
        assert reply.served is not None
        assert set(reply.served.failed_tries) == {"slow"}
        assert seen == [1]


def test_two_who_ask_the_same_at_once_have_two_questions() -> None:
    desk = Desk()
    replies: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: replies.append(desk.ask(CHAT, lambda: False)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    while len(desk.waiting()) < 2:
        time.sleep(0.001)
    for number, question in enumerate(desk.waiting()):
        assert desk.answer(question["number"], f"<action>{number}</action>")
        assert not desk.answer(question["number"], "again")
    for thread in threads:
        thread.join()
    assert sorted(map(str, replies)) == ["<action>0</action>", "<action>1</action>"]


def test_what_was_answered_meanwhile_is_there_and_what_nobody_came_back_for_is_not() -> None:
    now = [0.0]
    desk = Desk(clock=lambda: now[0])
    assert desk.ask(CHAT, lambda: True) is None
    (left,) = desk.waiting()
    assert not left["waited_for"]
    assert desk.answer(left["number"], "fold")
    assert desk.ask(CHAT, lambda: False) == "<action>fold</action>"

    assert desk.ask(CHAT, lambda: True) is None
    now[0] = LEFT_S + 1
    assert desk.waiting() == []
    assert not desk.answer(2, "fold")


def test_who_resigns_gives_up_the_turn_also_where_a_client_asks_for_it_again() -> None:
    """Games repeat the text of a turn with a fault behind; another turn is asked for as before."""
    turn = "Your hand: ace.\nYou are player_0."
    again = [{"role": "user", "content": f"{turn}\n\nYour last reply was not accepted."}]
    with desk_server(Desk(), "127.0.0.1", 0) as url, httpx2.Client(trust_env=False) as client:
        replies: list[Any] = []

        def ask_for(text: str) -> None:
            chat = [{"role": "user", "content": text}]
            body = {"model": "human", "messages": chat}
            found = client.post(f"{url}/v1/chat/completions", json=body, timeout=30).json()
            replies.append(found["choices"][0]["message"]["content"])

        for text in (turn, again[0]["content"], turn.replace("ace", "king")):
            thread = threading.Thread(target=ask_for, args=(text,), daemon=True)
            thread.start()
            with httpx2.Client(base_url=url, trust_env=False) as person:
                until(lambda: not thread.is_alive() or bool(waiting(person)))  # noqa: B023
                for question in waiting(person):
                    number = {"number": question["number"]}
                    if "king" in text:
                        person.post("/reply", json={**number, "reply": "call"})
                    else:
                        assert person.post("/resign", json=number).status_code == 200
                    assert person.post("/resign", json=number).status_code == 410
            thread.join(timeout=20)
        with httpx2.Client(base_url=url, trust_env=False) as person:
            assert person.get("/waiting").json()["answered"] == 2
            assert person.post("/resign", json={"number": "1"}).status_code == 400
    assert replies == [RESIGNED, RESIGNED, "<action>call</action>"]


def waiting(person: httpx2.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = person.get("/waiting").json()["questions"]
    return found


def test_other_requests_are_refused_by_name() -> None:
    chat = {"model": "human", "messages": CHAT, "max_tokens": 1}
    with (
        desk_server(Desk(), "127.0.0.1", 0) as url,
        httpx2.Client(base_url=url, trust_env=False) as client,
    ):
        tried = client.post("/v1/chat/completions", json=chat).json()
        assert tried["choices"][0]["message"]["content"] == "ready"
        assert client.get("/v1/models").json()["data"][0]["id"] == "human"
        for path in ("/", "/desk.js", "/controls.js", "/desk.css", "/page.css"):
            assert client.get(path).status_code == 200
        for status, answer in (
            (404, client.get("/../secret")),
            (404, client.post("/v1/chat/completions", json=chat | {"model": "gpt"})),
            (400, client.post("/v1/chat/completions", json=chat | {"messages": "hi"})),
            (400, client.post("/reply", json={"number": True, "reply": "x"})),
            (400, client.post("/reply", content=b"{", headers=HEADERS)),
            (410, client.post("/reply", json={"number": 9, "reply": "x"})),
            (415, client.post("/reply", content=b"{}", headers={"Content-Type": "text/plain"})),
            (421, client.get("/waiting", headers={"Host": "elsewhere.example"})),
        ):
            assert answer.status_code == status
            assert answer.json()["error"]["message"]


def raw(url: str, sent: bytes) -> bytes:
    """What comes back for these bytes, until the server closes the connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as link:
        link.sendall(sent)
        return b"".join(iter(lambda: link.recv(4096), b""))


@pytest.mark.parametrize(
    "length", ["-1", "x", "", "\xb2", "9" * 5000, str(1 + (1 << 20)), "1e3", "+5"]
)
def test_a_wrong_length_is_refused_in_one_line(
    length: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with desk_server(Desk(), "127.0.0.1", 0) as url:
        host = url.removeprefix("http://")
        head = f"POST /reply HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n"
        assert b" 413 " in raw(url, head.encode("latin-1")).split(b"\r\n")[0]
    assert capfd.readouterr().err == ""


def test_silent_clients_and_halves_of_requests_are_closed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(handler._Handler, "timeout", 0.2)
    with desk_server(Desk(), "127.0.0.1", 0) as url:
        host = url.removeprefix("http://")
        head = f"POST /reply HTTP/1.1\r\nHost: {host}\r\nContent-Length: 50\r\n\r\n"
        for sent in (b"", b"GET / HT", head.encode(), head.encode() + b"{"):
            assert raw(url, sent) == b""
    assert capfd.readouterr().err == ""


def test_questions_and_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, chat = Desk(), {"model": "human", "messages": CHAT}
    for number in range(MOST_QUESTIONS):
        desk._new([{"role": "user", "content": str(number)}], lambda: False)
    with (
        desk_server(desk, "127.0.0.1", 0) as url,
        httpx2.Client(base_url=url, trust_env=False) as client,
    ):
        full = client.post("/v1/chat/completions", json=chat)
        assert (full.status_code, full.json()["error"]["message"][:12]) == (503, "64 questions")
        found = client.get("/waiting").json()
        assert (len(found["questions"]), found["more"]) == (8, MOST_QUESTIONS - 8)
        monkeypatch.setattr(handler._Server, "most_connections", 3)
        host, _, port = url.removeprefix("http://").partition(":")
        links = [socket.create_connection((host, int(port)), timeout=10) for _ in range(4)]
        assert links[-1].recv(1) == b""  # the client above and two of these are served
        for link in links:
            link.close()


@pytest.mark.slow
def test_a_pause_stops_the_clock_of_who_asks_and_both_see_it() -> None:
    """The client gives up after three seconds; the pause is longer."""
    settings: dict[str, Any] = {"model": "human", "timeout_s": 3.0, "deadline_s": 3.0}
    lines: list[str] = []
    with (
        desk_server(Desk(), "127.0.0.1", 0) as url,
        httpx2.Client(base_url=url, trust_env=False) as person,
        an_engine(AtDesk(url), **settings) as engine,  # type: ignore[arg-type]
    ):
        engine._say = lines.append
        assert person.post("/pause", json={}).status_code == 200

        def sit() -> None:
            until(lambda: bool(waiting(person)))
            (question,) = waiting(person)
            shown.append(question["left_s"])
            time.sleep(3.5)
            shown.append(person.get("/waiting").json()["paused"])
            person.post("/go_on", json={})
            until(lambda: waiting(person)[0]["waited_for"])
            person.post("/reply", json={"number": question["number"], "reply": "bet"})

        shown: list[Any] = []
        thread = threading.Thread(target=sit, daemon=True)
        thread.start()
        (reply,) = ask(engine)
        thread.join(timeout=20)
    assert shown[0] in range(4)
    assert shown[1] is True
    assert reply.text == "<action>bet</action>"
    assert reply.served is not None
    assert reply.served.failed_tries == ()
    assert lines == [f"{url}/v1: the person pauses; the clock of this reply stands"]


def test_a_question_outlasts_a_pause_and_a_reply_ends_it() -> None:
    now = [0.0]
    desk = Desk(clock=lambda: now[0])
    desk.pause()
    for _ in range(2):
        with pytest.raises(PausedError):
            desk.ask(CHAT, lambda: False)
        now[0] += 10 * LEFT_S
    (question,) = desk.waiting()
    assert question["number"] == 1
    assert desk.answer(1, "fold")
    assert not desk.paused
    assert desk.ask(CHAT, lambda: False) == "<action>fold</action>"


def test_only_a_person_can_stop_the_clock() -> None:
    """Else any server could hold a run for ever."""
    headers = {"srl-paused": "1", "Retry-After-Ms": "1"}
    with (
        chat_server(refusals=[(503, "pausing")] * 9, answer_headers=headers) as server,
        an_engine(server, retries=1) as engine,
        pytest.raises(LostReplyError, match="2 server_error"),
    ):
        ask(engine)


@pytest.mark.slow
def test_a_draft_survives_a_reload_and_another_tab_until_it_is_sent() -> None:
    desk = Desk()
    with desk_server(desk, "127.0.0.1", 0) as url, chromium() as browser:
        for words in ("first", "second"):
            desk._new([{"role": "user", "content": words}], lambda: False)
        box = "return document.getElementById('reply').value"
        look = "return document.getElementById('observation').textContent"

        def shows(question: str, text: str) -> bool:
            until(lambda: browser.execute_script(look) == question)
            return bool(browser.execute_script(box) == text)

        browser.get(url)
        assert shows("first", "")
        assert violations(browser) == []
        browser.find_element("id", "reply").send_keys("my long reply")
        browser.refresh()
        assert shows("first", "my long reply")
        browser.switch_to.new_window("tab")
        browser.get(url)
        assert shows("first", "my long reply")
        browser.find_element("css selector", "button").click()
        assert shows("second", "")
        assert desk._questions[1].reply == "<action>my long reply</action>"
        assert browser.execute_script("return localStorage.length") == 0
        pause = browser.find_element("id", "pause")
        for words, button in (("Paused: your games wait", "Go on"), ("0 answered", "Pause")):
            pause.click()
            until(lambda button=button: pause.text == button)  # type: ignore[misc]
            assert violations(browser) == []
            assert words.replace("0", "1") in browser.find_element("id", "state").text


@pytest.mark.slow
def test_learners_meet_a_person_within_a_budget(tmp_path: Path) -> None:
    with desk_server(Desk(), "127.0.0.1", 0) as url:
        agent = f"openai:human@{url}/v1"
        (tmp_path / "r.yaml").write_text(
            f"""
name: with-a-person
model: tiny
env: kuhn_poker-v0
env_options: {{hands: 1}}
learners: [alice]
updates: 1
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 1, group_size: 2, max_new_tokens: 4}}
opponents: {{mirror: 0, live: 0, past: 0, agents: {{"{agent}": 1}}, budgets: {{"{agent}": {{requests: 60}}}}}}
survival: {{allow_nothing_learned: true}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
"""
        )
        with a_person(url, lambda text: "bet" if "bet" in text else "call") as seen:
            train_run(load(LeagueRecipe, tmp_path / "r.yaml"), tmp_path / "run")
    assert seen
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        assert all(agent in spec.seats for spec, _ in store.matches(split="train"))
