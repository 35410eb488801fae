"""Regular expressions in time linear in the text: RE2 runs them, never Python's ``re``.

Python's engine backtracks, so that ``(a+)+$`` needs twice as long for every further letter. RE2 walks
a finite automaton and therefore has no backreferences and no look-around.
"""

from __future__ import annotations

import importlib
from typing import Any

from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError

MAX_PATTERN_CHARS = 2_000


class LinearRegex:
    """A pattern in RE2's syntax. ``.`` stands for no line break, ``$`` only for the end of the text.

    Args:
        pattern: at most `MAX_PATTERN_CHARS` characters.
        place: names the setting that the pattern comes from, for the error.

    Raises:
        ConfigError: RE2 is not installed, or it refuses the pattern.
    """

    def __init__(self, pattern: str, *, place: str) -> None:
        if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_CHARS:
            raise ConfigError(
                f"{place}={pattern!r:.80}: give a text of at most {MAX_PATTERN_CHARS} characters."
            )
        re2 = _engine(place)
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True  # groups only group; spans would cost a slower automaton
        try:
            self._compiled = re2.compile(pattern, options)
        except (re2.error, UnicodeEncodeError) as error:
            reason = error.args[0] if isinstance(error, re2.error) else "it is not valid Unicode"
            reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
            raise ConfigError(
                f"{place}={pattern!r}: RE2 refuses it: {reason}. Backreferences and look-around "
                "cannot be matched in linear time; write the pattern without them."
            ) from None

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        data = _utf8(text)
        return data is not None and self._compiled.fullmatch(data) is not None

    def occurs(self, text: str) -> bool:
        """The pattern describes some part of the text."""
        data = _utf8(text)
        return data is not None and self._compiled.search(data) is not None


def _utf8(text: str) -> bytes | None:
    """None for lone surrogates: half a character matches nothing."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _engine(place: str) -> Any:
    """Google's ``re2``; other packages of this name fall back to Python's engine."""
    try:
        engine = importlib.import_module("re2")
    except ImportError:
        engine = None
    if not hasattr(engine, "Options"):
        raise ConfigError(
            f"{place}: patterns need google-re2, because Python's own engine can take exponential "
            f"time. Install it with `{install_command('rewards')}`."
        )
    return engine
