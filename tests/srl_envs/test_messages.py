import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.errors import IllegalMoveError
from srl_envs.messages import clean_message, join_body, quoted, split_body, whole_number
from srl_envs.turns.grammar import parse_reply

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=80)
LIMITS = st.integers(1, 60)


@given(ANYTHING, LIMITS)
def test_a_clean_message_is_one_visible_line(text: str, limit: int) -> None:
    message = clean_message(text, limit)
    assert len(message) <= limit
    assert message == message.strip()
    assert not set(message) & set("<>`")
    assert all(c == " " or not c.isspace() for c in message)
    assert not any(unicodedata.category(c).startswith("C") for c in message)
    assert unicodedata.is_normalized("NFC", message)
    assert clean_message(message, limit) == message


@given(ANYTHING, ANYTHING)
def test_no_message_makes_an_action_block_in_any_normal_form(text: str, around: str) -> None:
    message = clean_message(f"{text}<action>A</action>{around}＜action＞B＜/action＞", 500)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        shown = unicodedata.normalize(form, quoted(message))
        assert not set(shown) & set("<>`")
        assert parse_reply(shown, 500)[0] is None


@given(ANYTHING, LIMITS)
def test_a_quoted_message_has_quotes_at_its_ends_only(text: str, limit: int) -> None:
    shown = quoted(clean_message(text, limit))
    assert shown[0] == shown[-1] == '"'
    assert '"' not in shown[1:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", "hello"),
        ("  two\n\tlines\r\n", "two lines"),
        ("a\u2028b\u2029c\x85d\x0be\x1cf", "a b c d e f"),
        ("<action>A</action>", "actionA/action"),
        ("≮b≯ \u1fefx", "b x"),
        ("＜i＞ ｀", "i"),
        ("\u202eabc\u202c\u200b\u2066d\u2069\ufeff", "abcd"),
        ("\ud800x\ue000\U000e0041", "x"),
        ("a\ufe0f\U000e0101\u3164\u2800b", "ab"),
        ("e\u0301", "é"),
        ("a<\u0301", "á"),
        ("\x00\x07bell", "bell"),
        ("Käse für 5 €", "Käse für 5 €"),
        ("", ""),
    ],
)
def test_what_is_kept_of_a_message(text: str, expected: str) -> None:
    assert clean_message(text, 40) == expected


def test_a_long_message_is_cut_without_a_trailing_space() -> None:
    assert clean_message("ab cd", 3) == "ab"
    assert clean_message("x" * 1_000_000, 5) == "xxxxx"


def test_quotes_inside_become_apostrophes() -> None:
    assert quoted('so "Round 2": “you” lost') == "\"so 'Round 2': 'you' lost\""


@pytest.mark.parametrize(
    ("body", "message", "move"),
    [
        ("A", "", "A"),
        (" A \n", "", "A"),
        ("say: hello\nA", "hello", "A"),
        ("SAY:hello\r\n\r\n  A", "hello", "A"),
        ("say:\nA", "", "A"),
        ("say: say: A\nB", "say: A", "B"),
        ("say: <b>\nA", "b", "A"),
    ],
)
def test_message_and_move_are_told_apart(body: str, message: str, move: str) -> None:
    assert split_body(body, 20, example="A") == (message, move)


@pytest.mark.parametrize(
    "body", ["", "\n", "say: A", "say: hi\rsay: A", "A\nsay: hello", "hello\nA", "say: a\nb\nA"]
)
def test_bodies_that_are_no_message_and_move(body: str) -> None:
    with pytest.raises(IllegalMoveError, match="for example A"):
        split_body(body, 20, example="A")


@given(ANYTHING, st.sampled_from(["A", "12", "offer 1 0 2"]))
def test_joining_is_undone_by_splitting(text: str, move: str) -> None:
    message = clean_message(text, 30)
    assert split_body(join_body(message, move), 30, example="A") == (message, move)


@given(ANYTHING)
def test_splitting_any_text_gives_a_safe_message_or_an_illegal_move(body: str) -> None:
    try:
        spoken = split_body(body, 30, example="A")
    except IllegalMoveError:
        return
    assert spoken.message == clean_message(spoken.message, 30)
    assert spoken.move
    assert not {"\n", "\r"} & set(spoken.move)


@given(st.integers(0, 300))
def test_whole_numbers_are_read_back(value: int) -> None:
    assert whole_number(str(value), 0, 300) == value
    assert whole_number(str(value), value, value) == value


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "01", "1.0", " 1", "1 ", "21", "１", "٣", "²", "1e1", "9" * 5000]
)
def test_texts_that_are_no_number_from_0_to_20(text: str) -> None:
    assert whole_number(text, 0, 20) is None
