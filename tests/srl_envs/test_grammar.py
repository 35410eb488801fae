import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_envs.grammar import CLOSE, MAX_REPLY_CHARS, OPEN, action, parse_reply

LIMIT = 6
PIECES = [
    OPEN, CLOSE, action("a"), "</think>", "<think>", "a", "b", " ", "\n", "<", "action>", "4; 2",
    "é\ud800",
]  # fmt: skip
REPLIES = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join)


def slowly(reply: str, limit: int) -> str | None:
    """The grammar spelled out: cut, walk over every character, count, compare."""
    if len(reply) > MAX_REPLY_CHARS:
        return None
    tail = reply.rsplit("</think>", maxsplit=1)[-1]
    bodies, body, inside = [], "", False
    position = 0
    while position < len(tail):
        if tail.startswith(OPEN, position):
            if inside:
                return None
            inside, body, position = True, "", position + len(OPEN)
        elif tail.startswith(CLOSE, position):
            if not inside:
                return None
            inside, position = False, position + len(CLOSE)
            bodies.append(body.strip())
        else:
            body += tail[position]
            position += 1
    if inside or len(set(bodies)) != 1:
        return None
    return bodies[0] if len(bodies[0]) <= limit else None


@settings(max_examples=500)
@given(REPLIES)
def test_agrees_with_the_grammar_spelled_out(reply: str) -> None:
    body, reason = parse_reply(reply, LIMIT)
    assert body == slowly(reply, LIMIT)
    assert (body is None) == (reason is not None)


@given(st.text(max_size=LIMIT).filter(lambda text: OPEN not in text and CLOSE not in text))
def test_a_written_action_is_read_back(body: str) -> None:
    assert parse_reply(f"Let me see. {action(body)} That is it.", LIMIT) == (body.strip(), None)


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        ("<action>3</action>", "3"),
        ("<action> 3\n</action>", "3"),
        ("<action></action>", ""),
        ("<action>3</action> so <action> 3 </action>", "3"),
        ("<think><action>1</action></think><action>2</action>", "2"),
        ("<action>1</action></think>a</think> <action>2</action>", "2"),
        ("</think><action>1</action></think><action>2</action>", "2"),
        ("<think>never closed <action>2</action>", "2"),
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
        ("<Action>3</Action>", "no <action>"),
        ("<action >3</action >", "no <action>"),
        ("<action>3", "never closed"),
        ("</action>3<action>", "never closed"),
        ("<action>1</action><action>2</action>", "2 different"),
        ("<action>1</action><action>2</action><action>3</action>", "3 different"),
        ("<action><action>3</action></action>", "pair up"),
        ("<action>3</action></action>", "pair up"),
        ("</action><action>3</action>", "pair up"),
        ("<action>3</action><action>", "pair up"),
        ("<action>1234567</action>", "7 characters; at most 6"),
        ("x" * (MAX_REPLY_CHARS + 1), "at most 65536 are read"),
    ],
)
def test_refuses_and_says_why(reply: str, reason: str) -> None:
    body, why = parse_reply(reply, LIMIT)
    assert body is None
    assert reason in (why or "")


def test_many_blocks_are_read_in_one_pass() -> None:
    blocks = "".join(action(number % 10) for number in range(3000))
    assert parse_reply(blocks, LIMIT) == (
        None,
        "it has 10 different <action> blocks; write exactly one",
    )
    assert parse_reply(action("5") * 3000, LIMIT) == ("5", None)
    assert parse_reply(OPEN * 8000, LIMIT)[0] is None
