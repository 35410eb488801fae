"""All checks of one environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from srl_envs.foreign_code import load_entry_point
from srl_envs.registry import adopt, spec
from srl_envs.testing.contract import check_bots, check_contract, check_views
from srl_envs.testing.conversions import check_conversions
from srl_envs.testing.copies import check_copies
from srl_envs.testing.determinism import (
    check_determinism,
    check_reset_isolation,
    check_splits,
    check_subprocess,
)
from srl_envs.testing.episodes import ConformanceError
from srl_envs.testing.hidden import check_hidden_information
from srl_envs.testing.hostile import check_exploits, check_fuzz, check_hidden_replies
from srl_envs.testing.numeric import check_numeric
from srl_envs.testing.payoffs import check_payoffs, check_seat_symmetry, check_strength
from srl_envs.testing.public_suites import check_public_suites
from srl_envs.testing.states import check_golden, check_replay, check_state_round_trip


@dataclass(frozen=True)
class Check:
    """One rule, and how to keep it."""

    run: Callable[[str, int], None]
    """(id, number of episodes, more or less) -> None."""
    advice: str
    """For the author of an environment that breaks the rule."""

    def __call__(self, env_id: str, episodes: int) -> None:
        """Hold an environment to the rule.

        Args:
            env_id: a registered id.
            episodes: how many the check plays, more or less.

        Raises:
            ConformanceError: what is wrong, where, and what to do.
        """
        try:
            self.run(env_id, episodes)
        except ConformanceError as error:
            raise ConformanceError(f"{error}\nWhat to do: {self.advice}") from error
        except Exception as error:  # foreign code: what it raises is a fault of the environment
            raise ConformanceError(
                f"{env_id} raises {type(error).__name__}: {error}\nWhat to do: mend what the traceback "
                f"above shows. The rule in question: {self.advice}"
            ) from error


CHECKS: dict[str, Check] = {
    "public_suites": Check(
        lambda env_id, n: check_public_suites(env_id, cycles=50 * n),
        "make `sample` return legal moves, and let no method of the game raise on them; run the suite "
        "that is named by itself to see its own traceback.",
    ),
    "contract": Check(
        lambda env_id, n: check_contract(env_id, episodes=n),
        "keep to what the game declares: `max_turns`, `max_observation_chars`, at most 200 different "
        "`legal` moves, and `returns` that is None exactly as long as `to_move` names a seat.",
    ),
    "determinism": Check(
        lambda env_id, n: check_determinism(env_id, episodes=n),
        "draw from the `Streams` that `new` gets, and nothing else; keep what changes in the state, "
        "not in the game, its class or its module.",
    ),
    "subprocess": Check(
        lambda env_id, n: check_subprocess(env_id, episodes=n),
        "let nothing follow the order of a set or a `hash`: sort first.",
    ),
    "reset_isolation": Check(
        lambda env_id, n: check_reset_isolation(env_id, episodes=n),
        "start from a fresh state in `new`, and hand out copies of whatever the game keeps.",
    ),
    "splits": Check(
        lambda env_id, n: check_splits(env_id, episodes=max(50, 10 * n)),
        "draw the instance from `streams.instance`; its entropy holds the split and the seed.",
    ),
    "state_round_trip": Check(
        lambda env_id, n: check_state_round_trip(env_id, episodes=n),
        "put every field of the state into `encode`, as lists, numbers, texts and dicts with text "
        "keys, and rebuild the same types in `decode`.",
    ),
    "replay": Check(
        lambda env_id, n: check_replay(env_id, episodes=n),
        "an episode must depend only on its id, options, split, seed and replies; look for "
        "something that is carried from one episode to the next.",
    ),
    "views": Check(
        lambda env_id, n: check_views(env_id, episodes=n),
        "`observe` must depend only on the state and the seat, however often it is called.",
    ),
    "conversions": Check(
        lambda env_id, n: check_conversions(env_id, episodes=n),
        "set `simultaneous = True` in the class of a game whose `to_move` names all seats at every "
        "step, and in no other.",
    ),
    "copies": Check(
        lambda env_id, n: check_copies(env_id, episodes=n),
        "keep sockets, processes, locks and open files out of the game, or leave them out in "
        "`__getstate__` and open them when they are first needed; a bot draws only from the generator "
        "that its factory gets, and is an object with attributes where it remembers anything else.",
    ),
    "numeric": Check(
        lambda env_id, n: check_numeric(env_id, episodes=n),
        "let the features that `register(numeric=...)` names read the text, all of its legal moves and "
        "nothing else; values lie in [-1, 1].",
    ),
    "bots": Check(
        lambda env_id, n: check_bots(env_id, episodes=(n + 1) // 2),
        "a bot replies with <action>...</action> and a legal move, and draws only from the generator "
        "that its factory gets.",
    ),
    "strength": Check(
        lambda env_id, n: check_strength(env_id, episodes=10 + 2 * n),
        "make the strong bot play better, or the game reward better play; a difference that is real "
        "but small shows with more episodes.",
    ),
    "payoffs": Check(
        lambda env_id, n: check_payoffs(env_id, episodes=(n + 1) // 2),
        "`returns` and `forfeit` lie in [-1, 1] and sum to exactly 0 where the mode is competitive; "
        "in [0, 1] and the same for all where it is cooperative.",
    ),
    "seat_symmetry": Check(
        lambda env_id, n: check_seat_symmetry(env_id, episodes=max(8, 10 * n)),
        "draw who begins and who gets which role from `streams.seats`.",
    ),
    "hidden_information": Check(
        lambda env_id, n: check_hidden_information(env_id, episodes=n),
        "`observe`, `legal`, `fallback` and the errors of `parse` may use only what the seat may see; "
        "where seats see different things, override `swap_hidden`.",
    ),
    "hidden_replies": Check(
        lambda env_id, n: check_hidden_replies(env_id, episodes=n),
        "`parse` changes nothing; what a seat replied belongs into the state that `apply` returns.",
    ),
    "fuzz": Check(
        lambda env_id, n: check_fuzz(env_id, replies=50 * n),
        "`parse` raises IllegalMoveError, and nothing else, at any text; quote at most a few "
        "characters of it in the error, and read no number before its length is known.",
    ),
    "exploits": Check(
        lambda env_id, n: check_exploits(env_id, episodes=max(2, 2 * n)),
        "let `parse` accept one whole, exact move and search no text for one; let `fallback` and "
        "`forfeit` be worse than playing.",
    ),
}
"""Name -> check; the number it is called with scales how many episodes it plays."""


def check(env_id: str, *, episodes: int = 6, golden: str | Path | None = None) -> None:
    """Run every check.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many episodes the checks play, more or less; 1 or 2 suit slow environments.
        golden: folder with recorded episodes that must replay; see `check_golden`.

    Raises:
        ConformanceError: the first check that fails, and what to do about it.
        UnknownEnvironmentError, ModuleNotFoundError, AttributeError: the id, or the module or class of its
            entry point, does not exist; names the nearest.
    """
    load_entry_point(spec(adopt(env_id)).entry_point)
    for held_to in CHECKS.values():
        held_to(env_id, episodes)
    if golden is not None:
        check_golden(env_id, golden)
