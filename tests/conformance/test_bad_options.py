"""A wrong option fails when the environment is made, and names the allowed values."""

from typing import Any

import pytest

import srl_envs
from srl_envs.errors import ConfigError
from srl_envs.parallel import SHELL_OPTIONS

WRONG: tuple[object, ...] = (
    "no such value", "", "3", -1, 10**9, 3.7, float("nan"), float("inf"), [], ["no such value"], [[]],
    {}, {"a": 1}, b"x", (1,), object(), ["no such value"] * 2,
)  # fmt: skip
HUGE_IS_FINE = ("max_retries", "forfeit_after")
CASES = [
    pytest.param(env_id, option, id=f"{env_id}-{option}")
    for env_id in srl_envs.list_envs()
    for option in (*srl_envs.spec(env_id).options, *SHELL_OPTIONS)
]


def refusal(env_id: str, **options: Any) -> str:
    """Error message of `make`; empty where it makes the environment."""
    try:
        srl_envs.make(env_id, **options).close()
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("env_id", "option"), CASES)
def test_no_wrong_value_is_taken_or_raises_anything_else(env_id: str, option: str) -> None:
    for value in WRONG:
        if value == 10**9 and option in HUGE_IS_FINE:
            continue
        said = refusal(env_id, **{option: value})
        assert said, f"{option}={value!r} is taken"
        assert option in said or repr("no such value") in said or "no problem family" in said, said
        assert "\n" not in said


@pytest.mark.parametrize(("env_id", "option"), CASES)
def test_what_would_be_right_is_said(env_id: str, option: str) -> None:
    """A range, the names, or the type; one of them is in the text."""
    said = refusal(env_id, **{option: "no such value"})
    message = said.replace(repr("no such value"), "")
    names = ("true", "train", "retry", "ansi", "whole number", ":PATH", "one of", "list")
    assert any(char.isdigit() for char in message.partition(":")[2]) or any(
        n in message for n in names
    )


@pytest.mark.parametrize("env_id", srl_envs.list_envs())
def test_an_unknown_option_is_answered_with_all_that_there_are(env_id: str) -> None:
    known = (*srl_envs.spec(env_id).options, *SHELL_OPTIONS)
    said = refusal(env_id, no_such_option=1)
    assert "'no_such_option'" in said
    assert all(name in said for name in known)
    for name in known:
        assert f"Did you mean {name!r}?" in refusal(env_id, **{f"{name}x": 1})


@pytest.mark.parametrize("env_id", srl_envs.list_envs())
def test_truth_is_no_number(env_id: str) -> None:
    for option in ("max_retries", "forfeit_after"):
        assert option in refusal(env_id, **{option: True})
