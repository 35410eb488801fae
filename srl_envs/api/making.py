"""Make environments and bots by name, each interface imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from srl_envs.errors import ConfigError, nearest
from srl_envs.foreign_code import load_entry_point
from srl_envs.registry import EnvSpec, Policy, adopt, spec

if TYPE_CHECKING:  # imported when first made, so that `import srl_envs` stays light
    from srl_envs.core import Game
    from srl_envs.parallel import GameEnv
    from srl_envs.turns.bots import Bot
    from srl_envs.views.aec import GameAEC
    from srl_envs.views.single import GameSingle


def make(env_id: str, *, wrappers: Sequence[Mapping[str, Any]] = (), **options: Any) -> GameEnv:
    """Make an environment as a PettingZoo ParallelEnv.

    Args:
        env_id: a registered id such as ``code_duel-v0``, or ``package.module:Class`` of a
            `srl_envs.core.Game`, which is imported.
        wrappers: to put around it, from the inside out: ``{"kind": "TurnLimit", "steps": 30}``; see
            `srl_envs.wrappers`.
        **options: ``split`` ("train" or "eval"), ``invalid`` ("retry", "forfeit" or
            "random_legal"), ``max_retries``, ``forfeit_after``, ``render_mode``, and the game's own.

    Returns:
        A `GameEnv`. Where a third party's entry point does not return a `Game`, its return value as it is:
        another ParallelEnv, which only `srl_envs.testing.check_public_suites` can use.

    Raises:
        UnknownEnvironmentError: no such id.
        ConfigError: an option is unknown or impossible, or a wrapper is unknown or does not fit.
    """
    bare = _make_bare(spec(adopt(env_id)), options)
    if not wrappers:
        return bare
    from srl_envs.wrappers.applying import wrapped  # noqa: PLC0415 - keeps `import srl_envs` light

    try:
        return wrapped(bare, wrappers)
    except ConfigError as error:
        bare.close()
        raise ConfigError(f"{env_id}: {error}") from None


def count_seats(env_id: str, **options: Any) -> int:
    """Seats of an environment that is made with ``options``; raises what `make` raises."""
    env = make(env_id, **options)
    try:
        return len(env.possible_agents)
    finally:
        env.close()


def tool_schemas(env_id: str) -> list[dict[str, Any]]:
    """The moves of a game whose moves are calls, as ``apply_chat_template(tools=...)`` takes them.

    Raises:
        ConfigError: the game has no such moves.
    """
    from srl_envs.turns.tool_calls import schemas  # noqa: PLC0415

    env = make(env_id)
    try:
        if not env.game.tools:
            raise ConfigError(f"{env_id}: its moves are not tool calls; leave tools out.")
        return schemas(env.game.tools)
    finally:
        env.close()


def make_aec(env_id: str, **options: Any) -> GameAEC:
    """The same environment with PettingZoo's agent-by-agent interface.

    Args:
        env_id: a registered id.
        **options: as in `make`, which also says what it raises.
    """
    from srl_envs.views.aec import GameAEC  # noqa: PLC0415

    return GameAEC(make(env_id, **options))


def make_single(
    env_id: str,
    *,
    seat: int = 0,
    opponents: Mapping[int, str | Policy] | str | None = None,
    **options: Any,
) -> GameSingle:
    """One seat as a `gymnasium.Env`; the other seats are played by ``opponents``.

    Args:
        env_id: a registered id.
        seat: the seat that the caller plays.
        opponents: seat -> bot name of the environment, or a ``text -> text`` callable; or one bot name
            for all other seats. Seats that are not named make random legal moves.
        **options: as in `make`.

    Raises:
        UnknownEnvironmentError: no such id.
        ConfigError: an option is unknown or impossible, a seat is impossible, or an opponent is neither a
            bot's name nor callable.
        UnknownPolicyError: the environment has no such bot.
    """
    from srl_envs.views.single import GameSingle  # noqa: PLC0415

    return GameSingle(make(env_id, **options), seat=seat, opponents=opponents)


def make_bot(env_id: str, name: str, seed: int = 0) -> Bot:
    """A scripted policy of an environment, which can be copied and pickled at any moment.

    Args:
        env_id: a registered id.
        name: one of the environment's bots (`EnvSpec.bots`).
        seed: of the bot's own generator.

    Raises:
        UnknownPolicyError: the environment has no such bot; names the nearest.
    """
    from srl_envs.turns.bots import bot_of  # noqa: PLC0415 - keeps `import srl_envs` light

    return bot_of(spec(adopt(env_id)), name, seed)


def _make_bare(found: EnvSpec, options: Mapping[str, Any]) -> GameEnv:
    from srl_envs.core import Game  # noqa: PLC0415 - keeps `import srl_envs` light
    from srl_envs.parallel import SHELL_OPTIONS, GameEnv  # noqa: PLC0415

    target = load_entry_point(found.entry_point)
    if not (isinstance(target, type) and issubclass(target, Game)):
        return target(**options)  # type: ignore[no-any-return] # a third party's own ParallelEnv
    shell = {name: options[name] for name in options if name in SHELL_OPTIONS}
    rules = {name: options[name] for name in options if name not in SHELL_OPTIONS}
    return GameEnv(found, _make_game(found, target, rules), rules, **shell)


def _make_game(
    found: EnvSpec, target: Callable[..., Game[Any, Any]], rules: dict[str, Any]
) -> Game[Any, Any]:
    from srl_envs.parallel import SHELL_OPTIONS  # noqa: PLC0415

    unknown = [name for name in rules if name not in found.options]
    if unknown:
        known = [*found.options, *SHELL_OPTIONS]
        raise ConfigError(
            f"{found.id} has no option {unknown[0]!r}.{nearest(unknown[0], known)}"
            f" Options: {', '.join(sorted(known))}."
        )
    return target(**rules)
