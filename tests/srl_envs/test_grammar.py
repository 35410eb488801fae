import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_envs.turns.grammar import CLOSE, MAX_REPLY_CHARS, OPEN, action, bare_forms, parse_reply

LIMIT = 6
PIECES = [
    OPEN, CLOSE, action("a"), "</think>", "<think>", "<Thinking>", "</ THINK >", "<ACTION >",
    "< /Action>", "a", "b", " ", "\n", "<", "action>", "4; 2", "é\ud800",
]  # fmt: skip
REPLIES = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join)


def tag_at(text: str, position: int) -> tuple[str, int]:
    """Name of the tag that begins here ("" if none) and where it ends."""
    end = text.find(">", position)
    if text[position] != "<" or end < 0:
        return "", position + 1
    words = text[position + 1 : end].lower()
    name = "".join(words.split())
    if name.strip("/") not in ("action", "think", "thinking") or name.count("/") > 1:
        return "", position + 1
    if (not name.startswith("/") and "/" in name) or len(words.split("/")[-1].split()) != 1:
        return "", position + 1
    return name.replace("thinking", "think"), end + 1


def slowly(reply: str, limit: int) -> str | None:
    """The grammar spelled out: walk over every character, drop thoughts, remember the last tags."""
    if len(reply) > MAX_REPLY_CHARS:
        return None
    start, end, position = 0, len(reply), 0
    while position < len(reply):
        name, after = tag_at(reply, position)
        if name == "/think":
            start, end = after, len(reply)
        elif name == "think" and end == len(reply):
            end = position
        position = after
    tags = []
    position, said = 0, reply[start:end]
    while position < len(said):
        name, after = tag_at(said, position)
        if name.endswith("action"):
            tags.append((name, position, after))
        position = after
    if [name for name, _, _ in tags[-2:]] != ["action", "/action"]:
        return None
    body = said[tags[-2][2] : tags[-1][1]].strip()
    return body if len(body) <= limit else None


@settings(max_examples=500)
@given(REPLIES)
def test_agrees_with_the_grammar_spelled_out(reply: str) -> None:
    body, reason = parse_reply(reply, LIMIT)
    assert body == slowly(reply, LIMIT)
    assert (body is None) == (reason is not None)


@given(st.text(max_size=LIMIT).filter(lambda text: "<" not in text))
def test_a_written_action_is_read_back(body: str) -> None:
    assert parse_reply(f"Let me see. {action(body)} That is it.", LIMIT) == (body.strip(), None)


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        ("<action>3</action>", "3"),
        ("<action> 3\n</action>", "3"),
        ("<action></action>", ""),
        ("<Action>3</ACTION>", "3"),
        ("< action >3</ action >", "3"),
        ("<action>3</action> no, <action>4</action>", "4"),
        ("The form is <action>...</action>. Mine: <action>4</action>", "4"),
        ("I write <action> and then <action>4</action>", "4"),
        ("<think><action>1</action></think><action>2</action>", "2"),
        ("<THINKING>1</Thinking><action>2</action>", "2"),
        ("<action>1</action></think>a</think> <action>2</action>", "2"),
        ("<action>2</action> <think>was that right? <action>3</action>", "2"),
        ("<action>a<b</action>", "a<b"),
        ("<action>123456</action>", "123456"),
    ],
)
def test_accepts(reply: str, body: str) -> None:
    assert parse_reply(reply, LIMIT) == (body, None)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "no <action>"),
        ("3", "no <action>"),
        ("[3] (3) `3` \\boxed{3} <answer>3</answer>", "no <action>"),
        ("<action>2</action></think>", "no <action>"),
        ("<think>never closed <action>2</action>", "thought, which is never closed"),
        ("<think>a</think> <think> <action>2</action>", "thought, which is never closed"),
        ("<action>3", "never closed"),
        ("</action>3<action>", "never closed"),
        ("<action>3</action><action>4", "never closed"),
        ("<action><action>3</action></action>", "closes no"),
        ("<action>3</action></action>", "closes no"),
        ("<action>1234567</action>", "7 characters; at most 6"),
        ("x" * (MAX_REPLY_CHARS + 1), "at most 65536 are read"),
    ],
)
def test_refuses_and_says_why(reply: str, reason: str) -> None:
    body, why = parse_reply(reply, LIMIT)
    assert body is None
    assert reason in (why or "")


def test_many_tags_are_read_in_one_pass() -> None:
    assert parse_reply("".join(action(n % 10) for n in range(3000)), LIMIT) == ("9", None)
    assert parse_reply(OPEN * 8000, LIMIT)[0] is None
    assert parse_reply("< " * 30_000, LIMIT)[0] is None
    assert parse_reply("<think>" * 9000, LIMIT)[0] is None


@pytest.mark.parametrize(
    ("body", "forms"),
    [
        ("4", []),
        ("4.", ["4"]),
        ("**4**", ["*4*", "4"]),
        ("[`4`].", ["[`4`]", "`4`", "4"]),
        ("\u201ccall\u201d!", ["\u201ccall\u201d", "call"]),
        ("[0] or [4]", []),
        ("*3* or *4*", []),
        ("[[1], [2]]", ["[1], [2]"]),
        ("-4", []),
        ("(4", []),
        ("...", []),
        ("", []),
    ],
)
def test_marks_around_a_move_come_off_one_by_one(body: str, forms: list[str]) -> None:
    assert list(bare_forms(body)) == forms


def test_bare_forms_end_soon() -> None:
    assert len(list(bare_forms("(" * 4000 + "1" + ")" * 4000))) <= 8
