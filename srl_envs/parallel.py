"""The native view: a PettingZoo ParallelEnv around a `Game`.

The shell reads replies, counts retries, takes the fallback move, forfeits, and pays the ``format``
component; the game only ever sees legal actions. Seats that are not on move are ignored and never
charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Discrete
from pettingzoo import ParallelEnv

from srl_envs.core import SPLITS, Game, Split, Streams, episode_entropy, seat_name
from srl_envs.errors import (
    ConfigError,
    EpisodeOverError,
    IllegalMoveError,
    nearest,
)
from srl_envs.grammar import bare_forms, parse_reply, replies_of
from srl_envs.prompt_header import FORMAT_COST, write_header
from srl_envs.registry import EnvSpec
from srl_envs.seating import missing_action, require_text
from srl_envs.spaces import AnyText, LegalText

INVALID_MODES = ("retry", "forfeit", "random_legal")
SHELL_OPTIONS = ("split", "invalid", "max_retries", "forfeit_after", "render_mode")
FORMAT_FLOOR = -0.3
"""The ``format`` component of a seat never falls below this in one episode."""

Observation = dict[str, Any]
Fault = tuple[str | None, float]
"""What was wrong with a seat's reply (``malformed``, ``illegal`` or nothing), and what it costs."""
_NO_FAULT: Fault = (None, 0.0)


class GameEnv(ParallelEnv[str, Observation, str]):
    """Every seat acts through text; observations are ``{"text", "turn", "can_act"}``.

    Rewards are ``outcome + format``. ``infos[agent]`` holds ``reward_components`` (of this step),
    ``invalid`` (None, ``malformed`` or ``illegal``: what became of the last reply), ``played`` (the
    action body that counts for the seat in this step, its own or one that was played for it; None
    where there is none), ``attempts_left``, ``legal_actions`` (whole replies, ready for `step`, where
    the seat is on move and they can be listed), and at the end ``statistics`` (the game's own
    components) and ``forfeited``.

    Args:
        spec: what the registry knows of the environment.
        game: the rules.
        rules: the options that ``game`` was made with, for transcripts.
        split: "train" and "eval" draw from disjoint streams, and never the same instance where
            ``spec.held_out``; `reset` may override it.
        invalid: "retry" asks the same seat again, at most ``max_retries`` times, then takes the
            game's fallback move; "forfeit" ends the game at the first invalid reply;
            "random_legal" plays a random legal move instead (separates strategy from format).
        max_retries: extra tries per turn.
        forfeit_after: fallback moves in one episode after which the seat forfeits. A seat that made no
            move of its own by the end forfeits as well.
        render_mode: "ansi" (render returns text), "human" (prints it) or None.
    """

    def __init__(
        self,
        spec: EnvSpec,
        game: Game[Any, Any],
        rules: Mapping[str, Any],
        *,
        split: Split = "train",
        invalid: str = "retry",
        max_retries: int = 2,
        forfeit_after: int = 3,
        render_mode: str | None = None,
    ) -> None:
        _check(spec.id, "invalid", invalid, INVALID_MODES)
        _check(spec.id, "split", split, SPLITS)
        _check(spec.id, "render_mode", render_mode, (None, "ansi", "human"))
        shell = (("max_retries", max_retries, 0), ("forfeit_after", forfeit_after, 1))
        for name, value, least in shell:
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{spec.id}: {name}={value!r}; give a whole number >= {least}.")
        self.env_spec = spec
        self.game = game
        self.rules = dict(rules)
        self.metadata = {
            "name": spec.id,
            "render_modes": ["ansi", "human"],
            "render_fps": 1,
            "is_parallelizable": game.simultaneous,  # for conversions of the AEC view
        }
        self.render_mode = render_mode
        self.default_split = split
        self.invalid = invalid
        self.max_retries = max_retries
        self._attempts = max_retries + 1 if invalid == "retry" else 1
        self.forfeit_after = forfeit_after
        self.header = write_header(game.mode, invalid, self._attempts, forfeit_after)
        self.max_cycles: int | None = None
        self.possible_agents = [seat_name(seat) for seat in range(game.seats)]
        self._name_and_version = spec.name, spec.version
        self._seated = tuple(enumerate(self.possible_agents))
        self._unpaid = (0.0,) * game.seats
        self._none_done = dict.fromkeys(self.possible_agents, False)
        self.agents: list[str] = []
        self.outcomes: tuple[float, ...] | None = None
        self.paid: tuple[float, ...] = (0.0,) * game.seats
        """Outcome paid so far, per seat."""
        self.forfeited: tuple[int, ...] = ()
        self.seed: int = -1
        self.split: Split = split
        self._seeds: np.random.Generator | None = None
        steps = game.max_turns * (max_retries + 1) + 2
        self._observation_space = Dict(
            {
                "text": AnyText(len(self.header) + game.max_observation_chars),
                "turn": Discrete(steps),
                "can_act": Discrete(2),
            }
        )
        self._observation_spaces = dict.fromkeys(self.possible_agents, self._observation_space)
        self._action_spaces = {
            agent: LegalText(_Sampler(self, seat))
            for seat, agent in enumerate(self.possible_agents)
        }

    @property
    def options(self) -> dict[str, Any]:
        """What `make` needs to build this environment again (without split and render_mode)."""
        shell = {"invalid": "retry", "max_retries": 2, "forfeit_after": 3}
        changed = {
            name: getattr(self, name)
            for name, value in shell.items()
            if getattr(self, name) != value
        }
        return {**self.rules, **changed}

    def observation_space(self, agent: str) -> Dict:
        """The same object at every call."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> LegalText:
        """The same object at every call."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Start an episode.

        Args:
            seed: of the episode; None draws the next one from the last seed's own stream.
            options: ``{"split": "train" | "eval"}``.
        """
        if seed is None:
            seed = self._draw_seed()
        else:
            if not isinstance(seed, (int, np.integer)) or seed < 0:
                raise ConfigError(f"seed={seed!r}: give a whole number >= 0.")
            self._seeds = None
        self.seed = int(seed)
        self.split = self._split_of(options)
        game, n = self.game, self.game.seats
        self._streams = self._new_streams()
        self._state = game.new(self._streams)
        self.agents = list(self.possible_agents)
        self.outcomes, self.forfeited = None, ()
        self._turn = 0
        self._bodies: dict[int, str] = {}
        self._accepted: dict[int, Any] = {}
        self._pending = game.to_move(self._state)
        self._tries = [0] * n
        self._fallbacks = [0] * n
        self._moved: set[int] = set()
        self._format = [0.0] * n
        self.paid = (0.0,) * n
        self._errors = [""] * n
        observations, _, infos = self._describe(self._unpaid, {}, {})
        return observations, infos

    def step(
        self, actions: dict[str, str]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Take one reply of every seat on move; replies of the other seats are ignored.

        Raises:
            EpisodeOverError: called before `reset` or after the end.
            InvalidActionError: a seat on move has no action, or one that is not text.
            SandboxError: our own machinery failed; the episode is void.
        """
        agents = self.agents
        if not agents:
            raise EpisodeOverError("the episode is over (or not started): call reset().")
        accepted, bodies, problems = self._read_replies(actions)
        self._turn += 1
        self._moved.update(accepted)
        faults: dict[int, Fault] = {}
        played = bodies
        if problems or self._accepted:  # some have to reply again, or did just now
            self.forfeited = self._sort_replies(accepted, bodies, problems, faults)
            accepted, kept = self._accepted, self._bodies
            played = {seat: kept[seat] for seat in (*bodies, *problems) if seat in kept}
        else:
            self._pending = ()
            if any(self._tries):
                self._clear_tries(accepted)
        game = self.game
        if self.forfeited:
            self.outcomes, played = self._forfeit_outcomes(), {}
        elif not self._pending:
            self._state = state = game.apply(self._state, accepted)
            if self._accepted:
                self._accepted, self._bodies = {}, {}
            self._pending = game.to_move(state)
            self.outcomes = game.returns(state)
            if self.outcomes is not None and any(self._fallbacks):
                self.forfeited = self._idle()
                if self.forfeited:
                    self.outcomes = self._forfeit_outcomes()
        ended = self.outcomes is not None
        truncated = not ended and self._turn == self.max_cycles
        paid = self._pay(self.outcomes or game.earned(self._state))
        if not (ended or truncated):
            observations, rewards, infos = self._describe(paid, faults, played)
            return observations, rewards, self._none_done.copy(), self._none_done.copy(), infos
        self._pending, self.agents = (), []
        observations, rewards, infos = self._describe(paid, faults, played)
        self._describe_end(infos)
        terminated, cut = dict.fromkeys(agents, ended), dict.fromkeys(agents, truncated)
        return observations, rewards, terminated, cut, infos

    def sample_legal(self, seat: int, rng: np.random.Generator) -> str:
        """A random legal action body for a seat on move, drawn from ``rng``."""
        return self.game.sample(self._state, seat, rng)

    def render(self) -> str | None:
        """The whole position as a spectator sees it: returned for "ansi", printed for "human"."""
        self._require_started()
        text = self.game.render(self._state)
        if self.render_mode == "human":
            print(text)  # noqa: T201 - what render_mode="human" means
            return None
        return text

    def close(self) -> None:
        """Give back what the game holds (code games own a sandbox)."""
        self.game.close()

    def get_state(self) -> dict[str, Any]:
        """The whole episode as JSON values; `set_state` continues it, here or in another process.

        Raises:
            EpisodeOverError: called before `reset`.
        """
        self._require_started()
        return {
            "env": self.env_spec.id,
            "seed": self.seed,
            "split": self.split,
            "state": self.game.encode(self._state),
            "turn": self._turn,
            "bodies": {str(seat): body for seat, body in self._bodies.items()},
            "tries": list(self._tries),
            "fallbacks": list(self._fallbacks),
            "moved": sorted(self._moved),
            "format": list(self._format),
            "paid": list(self.paid),
            "errors": list(self._errors),
            "outcomes": None if self.outcomes is None else list(self.outcomes),
            "forfeited": list(self.forfeited),
            "chance": self._streams.chance.bit_generator.state,
            "live": bool(self.agents),
        }

    def set_state(
        self, data: Mapping[str, Any]
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Continue an episode that `get_state` described.

        Returns:
            Observations and infos as they stand, like `reset`.

        Raises:
            ConfigError: it describes another environment.
        """
        if data["env"] != self.env_spec.id:
            raise ConfigError(f"a state of {data['env']} cannot continue in {self.env_spec.id}.")
        self.seed, self.split = data["seed"], data["split"]
        self._streams = self._new_streams()
        self._streams.chance.bit_generator.state = data["chance"]
        self._seeds = None
        self._state = self.game.decode(data["state"])
        self._turn = data["turn"]
        self._bodies = {int(seat): body for seat, body in data["bodies"].items()}
        self._accepted = {
            seat: self.game.parse(self._state, seat, body) for seat, body in self._bodies.items()
        }
        self._tries, self._fallbacks = list(data["tries"]), list(data["fallbacks"])
        self._moved = set(data["moved"])
        self._format, self._errors = list(data["format"]), list(data["errors"])
        self.paid = tuple(data["paid"])
        self.outcomes = None if data["outcomes"] is None else tuple(data["outcomes"])
        self.forfeited = tuple(data["forfeited"])
        self.agents = list(self.possible_agents) if data["live"] else []
        to_move = self.game.to_move(self._state) if data["live"] else ()
        self._pending = tuple(seat for seat in to_move if seat not in self._bodies)
        observations, _, infos = self._describe(self._unpaid, {}, {})
        return observations, infos

    def _new_streams(self) -> Streams:
        return Streams(*episode_entropy(*self._name_and_version, self.split, self.seed))

    def _require_started(self) -> None:
        if self.seed < 0:
            raise EpisodeOverError("no episode was started: call reset().")

    def _draw_seed(self) -> int:
        """The next seed of a stream that the last seed given by the caller starts."""
        if self._seeds is None:
            start = (
                np.random.SeedSequence() if self.seed < 0 else np.random.SeedSequence([self.seed])
            )
            self._seeds = np.random.default_rng(start)
        return int(self._seeds.integers(2**31))

    def _split_of(self, options: dict[str, Any] | None) -> Split:
        # PettingZoo's suites pass options of their own invention, so only near misses are refused.
        for name in options or {}:
            if name != "split" and nearest(name, ["split"]):
                raise ConfigError(
                    f"{self.env_spec.id}: reset has no option {name!r}; it takes 'split'."
                )
        split: Split = (options or {}).get("split", self.default_split)
        _check(self.env_spec.id, "split", split, SPLITS)
        return split

    def _read_replies(
        self, actions: dict[str, str]
    ) -> tuple[dict[int, Any], dict[int, str], dict[int, tuple[str, str]]]:
        """Read the replies of the seats on move; nothing changes, so a caller may try again.

        Returns:
            By seat: the legal actions, their bodies, and for the others the kind of fault and its
            description.
        """
        game, state, longest = self.game, self._state, self.game.max_action_chars
        accepted: dict[int, Any] = {}
        bodies: dict[int, str] = {}
        problems: dict[int, tuple[str, str]] = {}
        for seat in self._pending:
            agent = self.possible_agents[seat]
            if actions is None or agent not in actions:
                raise missing_action(agent, seat, actions)
            reply = actions[agent]
            if type(reply) is not str:
                require_text(agent, reply)
            body, reason = parse_reply(reply, longest)
            if body is None:
                problems[seat] = "malformed", str(reason)
                continue
            try:
                accepted[seat] = game.parse(state, seat, body)
            except IllegalMoveError as error:
                meant = self._meant(seat, body)
                if meant is None:
                    problems[seat] = "illegal", str(error)
                    continue
                body, accepted[seat] = meant
            bodies[seat] = body
        return accepted, bodies, problems

    def _meant(self, seat: int, body: str) -> tuple[str, Any] | None:
        """The legal move that a refused body names with marks around it or in another case."""
        game, state = self.game, self._state
        forms = list(bare_forms(body))
        for form in forms:
            try:
                return form, game.parse(state, seat, form)
            except IllegalMoveError:
                continue
        wanted = {form.casefold() for form in (body, *forms)}
        listed = [move for move in game.legal(state, seat) or () if move.casefold() in wanted]
        return (listed[0], game.parse(state, seat, listed[0])) if len(listed) == 1 else None

    def _sort_replies(
        self,
        accepted: Mapping[int, Any],
        bodies: Mapping[int, str],
        problems: Mapping[int, tuple[str, str]],
        faults: dict[int, Fault],
    ) -> tuple[int, ...]:
        """Keep what was accepted, charge and recover the rest; returns the seats that forfeit."""
        waiting: list[int] = []
        forfeits: list[int] = []
        for seat in self._pending:
            if seat in accepted:
                self._accepted[seat], self._bodies[seat] = accepted[seat], bodies[seat]
                continue
            label, problem = problems[seat]
            faults[seat] = label, self._charge(seat)
            if not self._recover(seat, problem):
                forfeits.append(seat)
            elif seat not in self._accepted:
                waiting.append(seat)
        self._clear_tries(accepted)
        self._pending = tuple(waiting)
        return tuple(forfeits)

    def _clear_tries(self, seats: Iterable[int]) -> None:
        for seat in seats:
            if self._tries[seat]:
                self._tries[seat], self._errors[seat] = 0, ""

    def _idle(self) -> tuple[int, ...]:
        """Seats for which default moves alone were played: short games forfeit them as well."""
        return tuple(s for s, n in enumerate(self._fallbacks) if n and s not in self._moved)

    def _forfeit_outcomes(self) -> tuple[float, ...]:
        """Outcome per seat; where several forfeit at once, the mean, so that no seat's number counts."""
        each = [self.game.forfeit(self._state, seat) for seat in self.forfeited]
        return tuple(sum(paid) / len(each) for paid in zip(*each, strict=True))

    def _pay(self, total: tuple[float, ...] | None) -> Sequence[float]:
        """What this step pays of the outcome, now that ``total`` of it is due."""
        if total is None:
            return self._unpaid
        before, self.paid = self.paid, total
        return [now - then for now, then in zip(total, before, strict=True)]

    def _charge(self, seat: int) -> float:
        """What one more invalid reply costs, in reward units (<= 0)."""
        before = self._format[seat]
        self._format[seat] = max(FORMAT_FLOOR, before - FORMAT_COST)
        return self._format[seat] - before

    def _recover(self, seat: int, problem: str) -> bool:
        """Retry, play for the seat, or return False when it forfeits."""
        if self.invalid == "forfeit":
            return False
        self._tries[seat] += 1
        left = self._attempts - self._tries[seat]
        if left > 0:
            self._errors[seat] = (
                f"\n\nYour last reply was not accepted: {problem.rstrip('.')}. "
                f"Tries left for this turn: {left}."
            )
            return True
        if self.invalid == "retry":
            self._fallbacks[seat] += 1
            if self._fallbacks[seat] >= self.forfeit_after:
                return False
            body = self.game.fallback(self._state, seat)
        else:
            body = self.game.sample(self._state, seat, self._streams.chance)
        self._tries[seat], self._errors[seat] = 0, ""
        self._bodies[seat] = body
        self._accepted[seat] = self.game.parse(self._state, seat, body)
        return True

    def _describe(
        self, paid: Sequence[float], faults: Mapping[int, Fault], played: Mapping[int, str]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, dict[str, Any]]]:
        """Observations, rewards and infos of all seats; the text of each is written once."""
        game, state, pending, turn = self.game, self._state, self._pending, self._turn
        attempts, tries, errors, header = self._attempts, self._tries, self._errors, self.header
        observations: dict[str, Observation] = {}
        rewards: dict[str, float] = {}
        infos: dict[str, dict[str, Any]] = {}
        for seat, agent in self._seated:
            label, cost = faults.get(seat, _NO_FAULT) if faults else _NO_FAULT
            acts = seat in pending
            observations[agent] = {
                "text": header + game.observe(state, seat) + errors[seat],
                "turn": turn,
                "can_act": 1 if acts else 0,
            }
            rewards[agent] = paid[seat] + cost
            info: dict[str, Any] = {
                "reward_components": {"outcome": paid[seat], "format": cost},
                "invalid": label,
                "played": played.get(seat),
                "attempts_left": attempts - tries[seat],
            }
            if acts:
                legal = game.legal(state, seat)
                if legal is not None:
                    info["legal_actions"] = list(replies_of(tuple(legal)))
            infos[agent] = info
        return observations, rewards, infos

    def _describe_end(self, infos: dict[str, dict[str, Any]]) -> None:
        for seat, agent in enumerate(self.possible_agents):
            infos[agent]["statistics"] = dict(self.game.components(self._state, seat))
            infos[agent]["forfeited"] = seat in self.forfeited


class _Sampler:
    """Draws a legal body for one seat of a live environment; what `LegalText` samples from."""

    def __init__(self, env: GameEnv, seat: int) -> None:
        self._env, self._seat = env, seat

    def __call__(self, rng: np.random.Generator) -> str | None:
        env = self._env
        if not env.agents or self._seat not in env._pending:
            return None
        return env.game.sample(env._state, self._seat, rng)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Sampler:
        # follows a copied environment; a copied space alone stays with the one it came from
        return _Sampler(memo.get(id(self._env), self._env), self._seat)


def _check(env_id: str, name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        hint = (
            nearest(value, [a for a in allowed if isinstance(a, str)])
            if isinstance(value, str)
            else ""
        )
        raise ConfigError(f"{env_id}: {name}={value!r} is not one of {allowed}.{hint}")
