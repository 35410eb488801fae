"""No form of a key that a server may repeat stays in a text, and other texts stay as they are."""

from __future__ import annotations

import json
import string
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_envs.redaction import HIDDEN, RUN, Redactor
from tests.key_forms import CHANGED, ENCODED, ESCAPED, left_of, runs

ORDINARY = "Your key was refused: [{}]. See the page on keys; the development of it is required."
PRINTABLE = string.ascii_letters + string.digits + string.punctuation.replace("*", "")
KEYS = st.one_of(
    st.text(st.sampled_from(PRINTABLE), min_size=RUN, max_size=64),
    st.from_regex(r"sk-(proj-)?[A-Za-z0-9_-]{16,48}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{16,40}", fullmatch=True),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(KEYS, st.data(), *(st.sampled_from([*names]) for names in (CHANGED, ENCODED, ESCAPED)))
def test_no_form_of_a_prefix_stays(
    key: str, data: st.DataObject, change: str, encode: str, escape: str
) -> None:
    part = key[: data.draw(st.integers(RUN, len(key)), "characters of the prefix")]
    form = ENCODED[encode](CHANGED[change](part))
    escaped, unescaped = ESCAPED[escape]
    text = Redactor(key).hide(ORDINARY.format(escaped(form)))
    before, behind = ORDINARY.split("{}")
    assert text.startswith(before)
    assert text.endswith(behind)
    left = unescaped(text.removeprefix(before).removesuffix(behind))
    assert HIDDEN in left
    assert not left_of(key, left)
    # Of base64 the ends may stay, which depend also on what is beside the key.
    assert not runs(form, 13) & runs(left, 13)


@settings(max_examples=60, deadline=None)
@given(
    KEYS,
    st.text(),
    st.text(),
    st.data(),
)
def test_the_text_around_a_key_stays(
    key: str, before: str, behind: str, data: st.DataObject
) -> None:
    change = CHANGED[data.draw(st.sampled_from([*CHANGED]))]
    text = Redactor(key).hide(f"{before}<{change(key)}>{behind}")
    assert not left_of(key, text)
    if not left_of(key, before + behind) and not set(key) & set("<>"):
        assert text == f"{before}<{HIDDEN}>{behind}"


@settings(max_examples=80, deadline=None)
@given(st.text() | st.text(st.sampled_from(PRINTABLE + "\\%&u0041;")), KEYS)
def test_a_text_without_the_key_stays_as_it_is(text: str, key: str) -> None:
    assert Redactor(key + "\x7f").hide(text) == text or left_of(key, text)


@pytest.mark.parametrize("key", ["", "EMPTY", "none", "dummy", "ollama", "abcdefg"])
def test_a_placeholder_of_fewer_than_eight_characters_hides_nothing(key: str) -> None:
    text = f"none of the {key} words, nor {key.upper()}, is a key"
    assert Redactor(key).hide(text) == text


def test_words_that_a_key_holds_stay_in_ordinary_text_and_go_with_the_key() -> None:
    text = "Development of the Required part; a DEVELOPMENT is required."
    for key in ("sk-no-key-required", "local-development-key-1"):
        hide = Redactor(key).hide
        assert hide(text) == text
        for form in (key, key[::-1], key.upper(), key.title()):
            assert hide(f"<{form}>") == f"<{HIDDEN}>"
    assert Redactor("correcthorsebattery").hide("correcth orrecthorseb") == f"{HIDDEN} {HIDDEN}"


def test_fewer_than_eight_characters_stay() -> None:
    key = "sk-Zq81hVx0Lw"
    for run in runs(key, RUN - 1):
        assert Redactor(key).hide(f"<{run}>") == f"<{run}>"
    for run in runs(key, RUN):
        assert Redactor(key).hide(f"<{run}>") == f"<{HIDDEN}>"


@pytest.mark.parametrize("escape", ESCAPED)
def test_escapes_are_replaced_to_their_last_character(escape: str) -> None:
    key = '"&sk-"quoted"\\and/m_1&"'
    escaped, _ = ESCAPED[escape]
    assert Redactor(key).hide(f"<{escaped(key)}>") == f"<{HIDDEN}>"


def test_json_stays_json_and_means_what_it_meant() -> None:
    key = 'sk-"quoted"\\and/more_1'
    body = {"a": [f"x {key} y", key[::-1], 1.5], "b": {"c\n\u00fc\\": f"\\{key}\\"}}
    for ascii_only in (True, False):
        hidden = Redactor(key).hide(json.dumps(body, ensure_ascii=ascii_only))
        assert json.loads(hidden) == {
            "a": [f"x {HIDDEN} y", HIDDEN, 1.5],
            "b": {"c\n\u00fc\\": f"\\{HIDDEN}\\"},
        }


@pytest.mark.parametrize("piece", ["sk-Zq ", "%2", "%41", "\\u0041", "&", "\\", "sk-Zq81hVx0Lw"])
def test_the_work_grows_with_the_text_and_not_with_its_square(piece: str) -> None:
    """Counts executed lines, which no other process can disturb."""
    hide = Redactor("sk-Zq81hVx0Lw").hide

    def lines(text: str) -> int:
        count = 0

        def trace(*_: object) -> Any:
            nonlocal count
            count += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            hide(text)
        finally:
            sys.settrace(before)
        return count

    assert lines(piece * 800) < 9 * lines(piece * 100) + 1000
