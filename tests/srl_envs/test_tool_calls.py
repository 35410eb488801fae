"""Moves as tool calls of a chat template: what is read as one, and what stays an action block."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import srl_envs
from srl_envs.api.making import tool_schemas
from srl_envs.core import Tool
from srl_envs.errors import ConfigError
from srl_envs.turns.tool_calls import called_body, schemas, written_call

READ = Tool("read", "Open a file.", (("path", "its path"),))
WRITE = Tool("write", "Write a file.", (("path", "its path"), ("text", "its lines")))
DONE = Tool("done", "End.", ())
TOOLS = (READ, WRITE, DONE)
CALL = written_call(READ, {"path": "a.txt"})


def read(reply: str) -> tuple[str | None, str | None] | None:
    return called_body(reply, TOOLS, 100)


def test_a_call_is_the_same_move_as_an_action_block() -> None:
    assert read(CALL) == ("read: a.txt", None)
    assert read(written_call(WRITE, {"path": "a", "text": "x: 1\ny: 2"})) == (
        "write: a\nx: 1\ny: 2",
        None,
    )
    assert read(written_call(DONE, {})) == ("done:", None)
    assert read('<tool_call>{"name": "done"}</tool_call>') == ("done:", None)


def test_the_last_block_counts_whatever_its_form() -> None:
    assert read(f"<action>read: b</action> or {CALL}") == ("read: a.txt", None)
    assert read(f"{CALL} <action>read: b</action>") is None
    assert read(f"{CALL}\n{written_call(DONE, {})}") == ("done:", None)
    assert read(f"<think>{CALL}</think>") is None
    assert read("nothing") is None


@pytest.mark.parametrize(
    "inside",
    ["", "read", "[]", "{", '{"name": "open"}', '{"name": 3}', '{"name": "read"}', "[" * 5000,
     '{"name": "read", "arguments": {"path": ["a"]}}', '{"name": "read", "arguments": "a"}',
     '{"name": "done", "arguments": {"path": "a"}}', '{"name": "read", "arguments": {"path": "'
     + "a" * 200 + '"}}', '{"name": "read", "arguments": {"path": ' + "9" * 5000 + "}}"],
)  # fmt: skip
def test_what_is_no_call_is_refused_with_a_reason(inside: str) -> None:
    body, reason = read(f"<tool_call>{inside}</tool_call>") or ("", None)
    assert body is None
    assert reason
    assert len(reason) < 120


def test_a_call_that_is_never_closed_is_refused() -> None:
    assert read(CALL.removesuffix("</tool_call>")) == (
        None,
        "its last <tool_call> is never closed",
    )


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=60),
    st.sampled_from(["{}", '{{"name": "read", "arguments": {}}}']),
)
def test_any_text_is_read_or_refused(text: str, form: str) -> None:
    read(f"<tool_call>{form.replace('{}', text)}</tool_call>")
    body, _ = called_body(written_call(READ, {"path": text}), TOOLS, 100) or ("", None)
    assert body is not None
    assert body.removeprefix("read:").strip() == text.strip()


def test_schemas_name_every_parameter_and_only_games_of_calls_have_them() -> None:
    (read_schema, write_schema, _) = schemas(TOOLS)
    assert read_schema["function"]["parameters"]["required"] == ["path"]
    assert list(write_schema["function"]["parameters"]["properties"]) == ["path", "text"]
    names = {each["function"]["name"] for each in tool_schemas("research_room-v0")}
    assert {"search", "read", "python", "answer"} <= names
    assert json.dumps(tool_schemas("research_room-v0"))
    with pytest.raises(ConfigError, match="nim-v0"):
        tool_schemas("nim-v0")


def test_an_environment_takes_calls_and_another_one_does_not() -> None:
    room = srl_envs.make("research_room-v0", level=1, players=1)
    call = written_call(READ, {"path": "notes/01.txt"})
    short = '<tool_call>{"name":"read","arguments":{"path":"x"}}</tool_call>'
    assert len(short) <= 64  # short replies are kept, by their text only
    for _ in range(2):
        room.reset(seed=1)
        *_, infos = room.step({"player_0": call})
        assert infos["player_0"]["played"] == "read: notes/01.txt"
        *_, infos = room.step({"player_0": short})
        assert infos["player_0"]["invalid"] == "illegal"
        nim = srl_envs.make("nim-v0")
        nim.reset(seed=1)
        (mover,) = nim.on_move
        *_, infos = nim.step({mover: short})
        assert infos[mover]["invalid"] == "malformed"
