"""What every step must satisfy, that the views agree, and that the bots keep to the rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from srl_envs.api.episode import Transcript, play
from srl_envs.api.making import make_bot
from srl_envs.parallel import INVALID_MODES, GameEnv
from srl_envs.registry import spec
from srl_envs.testing.episodes import (
    ConformanceError,
    Recording,
    game_env,
    record,
    require,
    require_same,
)
from srl_envs.turns.grammar import parse_reply
from srl_envs.views.aec import GameAEC
from srl_envs.views.single import GameSingle


def check_contract(env_id: str, *, episodes: int = 4) -> None:
    """Spaces, infos, flags and bounds hold at every step, in every mode of invalid replies.

    Seats and mode of the game are those that it is registered with.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: the first thing that does not hold.
    """
    for mode in INVALID_MODES:
        with game_env(env_id, invalid=mode) as env, game_env(env_id, invalid=mode) as other:
            _require_registered(env)
            statistics = env.statistic_names
            for seed in range(episodes):
                where = f"{env_id}: seed {seed}, invalid={mode!r}"
                recording = record(env, seed)
                _require_step(where, env, recording.first[0], recording.first[1], live=True)
                for number, (_, results) in enumerate(recording.steps, 1):
                    live = number < len(recording.steps)
                    _require_step(f"{where}, step {number}", env, results[0], results[-1], live)
                    _require_flags(f"{where}, step {number}", results, live, statistics)
                _require_others_ignored(where, other, seed, recording)


def _require_registered(env: GameEnv) -> None:
    """The game and its registration agree with the default options."""
    registered, game = env.env_spec, env.game
    for name in ("seats", "mode"):
        given, own = getattr(registered, name), getattr(game, name)
        require(
            given == own,
            f"{registered.id}: registered with {name}={given!r}, and {type(game).__name__} has {own!r} with "
            f"its default options; write {name}={own!r} in register, or change the class.",
        )


def _require_step(
    where: str, env: GameEnv, observations: Mapping[str, Any], infos: Mapping[str, Any], live: bool
) -> None:
    agents = set(env.possible_agents)
    require(
        set(observations) == agents == set(infos),
        f"{where}: not every seat has an observation and an info.",
    )
    for agent, seen in observations.items():
        space = env.observation_space(agent)
        require(space.contains(seen), f"{where}: {agent} sees what its space does not contain.")
        info = infos[agent]
        require(info["attempts_left"] >= live, f"{where}: {agent} has no attempt left.")
        if not seen["can_act"]:
            require("legal_actions" not in info, f"{where}: {agent} is not on move.")
        elif "legal_actions" in info:
            legal = info["legal_actions"]
            require(0 < len(legal) <= 200, f"{where}: {len(legal)} legal actions of {agent}.")
            require(len(set(legal)) == len(legal), f"{where}: a legal action of {agent} repeats.")
            for reply in legal:
                body, problem = parse_reply(reply, env.game.max_action_chars)
                require(body is not None, f"{where}: legal action {reply!r} of {agent}: {problem}.")
    acting = sum(seen["can_act"] for seen in observations.values())
    require(bool(acting) == live, f"{where}: {acting} seats are on move.")


def _require_flags(
    where: str, results: tuple[Any, ...], live: bool, statistics: tuple[str, ...]
) -> None:
    _, rewards, terminations, truncations, infos = results
    require(all(math.isfinite(r) for r in rewards.values()), f"{where}: rewards {rewards}.")
    require(not any(truncations.values()), f"{where}: truncated, although the caller set no limit.")
    ended = set(terminations.values())
    require(ended == {not live}, f"{where}: terminations {terminations}.")
    if not live:
        complete = all({"statistics", "forfeited"} <= set(info) for info in infos.values())
        require(complete, f"{where}: the last infos lack statistics or forfeited.")
        for info in infos.values():
            require(
                set(info["statistics"]) == set(statistics),
                f"{where}: statistics {list(info['statistics'])}; the first state has {list(statistics)}.",
            )


def _require_others_ignored(where: str, env: GameEnv, seed: int, expected: Recording) -> None:
    """Replies of seats that are not on move change nothing, and neither does leaving them out."""
    got = Recording(env.reset(seed=seed))
    seen = got.first[0]
    for actions, _ in expected.steps:
        needed = {agent: text for agent, text in actions.items() if seen[agent]["can_act"]}
        results = env.step(needed)
        got.steps.append((actions, results))
        seen = results[0]
    require_same(where, "without the replies of seats not on move", expected, got)


def check_bots(env_id: str, *, episodes: int = 3) -> None:
    """Every bot can be made, plays only valid replies against every kind, and follows from its seed.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: a bot is missing, replies invalidly, or is not reproducible.
    """
    found = spec(env_id)
    with game_env(env_id) as env:
        for name in found.bots:
            for seed in range(episodes):
                game = _bot_game(env, name, seed)
                where = f"{env_id}: bot {name!r}, seed {seed}"
                wrong = [step for step in game.steps if any(step.invalid)]
                require(not wrong, f"{where}: an invalid reply: {wrong[:1]!r}")
                require(not game.truncated, f"{where}: the game does not end.")
                again = game if seed else _bot_game(env, name, seed)
                require(game == again, f"{where}: the same seed plays another game.")


def _bot_game(env: GameEnv, name: str, seed: int) -> Transcript:
    env_id, seats = env.env_spec.id, range(len(env.possible_agents))
    try:
        bots = {seat: make_bot(env_id, name, seed=10 * seed + seat) for seat in seats}
    except (ImportError, AttributeError) as error:
        raise ConformanceError(f"{env_id}: bot {name!r} cannot be made: {error}") from error
    return play(env, bots, seed=seed)


def check_views(env_id: str, *, episodes: int = 3) -> None:
    """The agent-by-agent and the single-seat view give every seat the same texts as the parallel view.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: what a seat sees or earns depends on the view.
    """
    with game_env(env_id) as env:
        seats = range(len(env.possible_agents))
        for seed in range(episodes):
            received = _Received(env, seed)
            play(env, received.policies(), seed=seed)
            expected = received.all()
            by_agent = _through_aec(env, seed)
            require(by_agent == expected, f"{env_id}: seed {seed}: the AEC view differs.")
            for seat in seats:
                single = _through_single(env, seat, seed)
                require(
                    single == expected[seat],
                    f"{env_id}: seed {seed}: the single view of seat {seat} differs.",
                )


class _Received:
    """Policies that draw replies from the episode's seed and record every text that they received."""

    def __init__(self, env: GameEnv, seed: int) -> None:
        self._env, self._seed = env, seed
        self._texts: dict[int, list[str]] = {s: [] for s in range(len(env.possible_agents))}

    def policies(self) -> dict[int, Callable[[str], str]]:
        for seat, agent in enumerate(self._env.possible_agents):
            self._env.action_space(agent).seed(1000 * self._seed + seat)
        return {seat: self._policy(seat) for seat in self._texts}

    def _policy(self, seat: int) -> Callable[[str], str]:
        space = self._env.action_space(self._env.possible_agents[seat])

        def reply(text: str) -> str:
            self._texts[seat].append(text)
            return space.sample()

        return reply

    def all(self) -> dict[int, tuple[list[str], float]]:
        """Seat -> every text it answered, and its outcome."""
        outcomes = self._env.outcomes or ()
        return {seat: (texts, outcomes[seat]) for seat, texts in self._texts.items()}


def _through_aec(env: GameEnv, seed: int) -> dict[int, tuple[list[str], float]]:
    view, received = GameAEC(env), _Received(env, seed)
    policies = received.policies()
    view.reset(seed=seed)
    for agent in view.agent_iter():
        seen, _, terminated, truncated, _ = view.last()
        silent = terminated or truncated or not seen["can_act"]
        view.step(None if silent else policies[view.possible_agents.index(agent)](seen["text"]))
    return received.all()


def _through_single(env: GameEnv, seat: int, seed: int) -> tuple[list[str], float]:
    received = _Received(env, seed)
    policies = received.policies()
    others: dict[int, Any] = {s: policy for s, policy in policies.items() if s != seat}
    view = GameSingle(env, seat=seat, opponents=others)
    seen, _ = view.reset(seed=seed)
    over = False
    while not over:
        reply = policies[seat](seen["text"]) if env.agents else ""
        seen, _, terminated, truncated, _ = view.step(reply)
        over = terminated or truncated
    return received.all()[seat]
