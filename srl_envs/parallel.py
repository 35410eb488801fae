"""The native view: a PettingZoo ParallelEnv around a `Game`.

The shell reads replies, counts retries, takes the fallback move, forfeits, and pays the ``format``
component; the game only ever sees legal actions. Seats that are not on move are ignored and never
charged. Observations and infos are written on request; the parallel view requests all.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import sub
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Discrete
from pettingzoo import ParallelEnv

from srl_envs.core import SPLITS, Game, Split, Streams, episode_entropy, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, EpisodeOverError, nearest
from srl_envs.registry import EnvSpec
from srl_envs.turns.conduct import Conduct, Refusal, read_moves
from srl_envs.turns.grammar import replies_of
from srl_envs.turns.prompt_header import write_header
from srl_envs.turns.spaces import AnyText, LegalMoves, LegalText

INVALID_MODES = ("retry", "forfeit", "random_legal")
SHELL_OPTIONS = ("split", "invalid", "max_retries", "forfeit_after", "render_mode")
Observation = dict[str, Any]
Fault = tuple[str | None, float]
"""What was wrong with a seat's reply (``malformed``, ``illegal`` or nothing), and what it costs."""
_NO_FAULT: Fault = (None, 0.0)
_NO_FAULTS: Mapping[int, Fault] = {}
_RESHUFFLED = 4
"""Name of the stream of `GameEnv.reshuffle`, beside those of `Streams`."""
_NOTHING_PLAYED: Mapping[int, str] = {}


class GameEnv(ParallelEnv[str, Observation, str]):
    """Every seat acts through text; observations are ``{"text", "turn", "can_act"}``.

    Rewards are ``outcome + format``. ``infos[agent]`` holds ``reward_components`` (of this step),
    ``invalid`` (None, ``malformed`` or ``illegal``: the verdict on the last reply), ``played`` (the
    action body that counts for the seat in this step, its own or one that was played for it; None
    where there is none), ``attempts_left``, ``legal_actions`` (whole replies, ready for `step`, where
    the seat is on move and they can be listed), and at the end ``statistics`` (the game's own
    components) and ``forfeited``.

    Args:
        spec: the environment's entry in the registry.
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
        self._seat_of = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._names_of = _Names()
        self._earns = getattr(game.earned, "__func__", None) is not Game.earned
        self._unpaid = (0.0,) * game.seats
        self._none_done = dict.fromkeys(self.possible_agents, False)
        self.agents: list[str] = []
        self.outcomes: tuple[float, ...] | None = None
        self.paid: tuple[float, ...] = (0.0,) * game.seats
        """Outcome of each seat that was paid so far."""
        self.forfeited: tuple[int, ...] = ()
        self.pays = False
        """Whether the last step paid or cost anything; else all of `rewards` are 0."""
        self.truncated = False
        """Whether the episode was cut off at ``max_cycles``."""
        self.seed: int = -1
        self.split: Split = split
        self._seeds: np.random.Generator | None = None
        self._pending: tuple[int, ...] = ()
        self.on_move: tuple[str, ...] = ()
        """Agents whose replies the next step needs."""
        steps = game.max_turns * (max_retries + 1) + 2
        self._observation_space = Dict(
            {
                "text": AnyText(self.most_text_chars),
                "turn": Discrete(steps),
                "can_act": Discrete(2),
            }
        )
        self._observation_spaces = dict.fromkeys(self.possible_agents, self._observation_space)
        self._action_spaces = {
            agent: LegalText(LegalMoves(self, seat))
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

    @property
    def most_text_chars(self) -> int:
        """Length of the longest text that a seat reads."""
        return len(self.header) + self.game.max_observation_chars

    @property
    def paid_names(self) -> tuple[str, ...]:
        """Components that rewards are the sum of."""
        return "outcome", "format"

    @property
    def resource_name(self) -> str:
        """The statistic that is the share of the scarce pool which a seat won; empty without a pool."""
        return self.game.resource

    @property
    def statistic_names(self) -> tuple[str, ...]:
        """Components of an episode that are reported at its end and not paid."""
        entropy = episode_entropy(*self._name_and_version, self.default_split, 0)
        return tuple(self.game.components(self.game.new(Streams(*entropy)), 0))

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

        Raises:
            ConfigError: the seed is not a whole number of 0 or more, or an option is unknown.
        """
        self.start(seed, options)
        return self._described()

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

        Args:
            actions: agent -> whole reply.

        Returns:
            Observations, rewards in reward units, terminations, truncations and infos, by agent.

        Raises:
            EpisodeOverError: called before `reset` or after the end.
            InvalidActionError: a seat on move has no action, or one that is not text.
            SandboxError: our own machinery failed; the episode is void.
        """
        self.advance(actions)
        observations, infos = self._described()
        terminations, truncations = self._none_done.copy(), self._none_done.copy()
        if not self.agents:
            over = truncations if self.truncated else terminations
            over.update(dict.fromkeys(over, True))
        return observations, self.rewards(), terminations, truncations, infos

    def start(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode as `reset` does, and describe nothing; see `advance`.

        Args:
            seed: of the episode; None draws the next one from the last seed's own stream.
            options: as `reset` takes them.

        Raises:
            ConfigError: the seed is not a whole number of 0 or more, or an option is unknown.
        """
        if seed is None:
            seed = self._draw_seed()
        else:
            if not isinstance(seed, (int, np.integer)) or seed < 0:
                raise ConfigError(f"seed={seed!r}: give a whole number >= 0.")
            self._seeds = None
        self.seed = int(seed)
        self.split = self._split_of(options) if options else self.default_split
        self._streams = self._new_streams()
        self._state = self.game.new(self._streams)
        self._turn = 0
        self._bodies: dict[int, str] = {}
        self._accepted: dict[int, Any] = {}
        self._conduct = Conduct(self.game.seats, self._attempts, self.forfeit_after)
        self.paid, self.outcomes, self.forfeited, self.truncated = self._unpaid, None, (), False
        self.agents = list(self.possible_agents)
        self._stand(self.game.to_move(self._state))

    def _stand(self, pending: tuple[int, ...]) -> None:
        """Set the seats on move without a step: after a reset, or in a restored state."""
        self._pending, self.on_move = pending, self._names_of[pending]
        self._paid_before, self.pays = self.paid, False
        self._faults, self._played = _NO_FAULTS, _NOTHING_PLAYED

    def advance(self, actions: Mapping[str, str]) -> None:
        """Take replies as `step` does, and describe nothing.

        `observation`, `info` and `rewards` write what is asked for; ``agents`` is empty at the end.

        Raises:
            EpisodeOverError: called before `reset` or after the end.
            InvalidActionError: a seat on move has no action, or one that is not text.
            SandboxError: our own machinery failed; the episode is void.
        """
        if not self.agents:
            raise EpisodeOverError("the episode is over (or not started): call reset().")
        game, conduct = self.game, self._conduct
        accepted, bodies, refused = read_moves(
            game, self._state, self._pending, self.possible_agents, actions
        )
        self._turn += 1
        self._played = bodies
        if self.pays:
            self._paid_before, self._faults, self.pays = self.paid, _NO_FAULTS, False
        if len(conduct.moved) < game.seats:
            conduct.moved.update(accepted)
        if refused or self._accepted:  # some have to reply again, or did just now
            self._sort_replies(accepted, bodies, refused)
        else:
            if conduct.retrying:
                conduct.clear(accepted)
            self._apply(accepted)
        if self.outcomes is not None or self._turn == self.max_cycles:
            self._pending, self.on_move, self.agents = (), (), []
            self.truncated = self.outcomes is None

    def text(self, agent: str) -> str:
        """What one agent reads now."""
        seat = self._seat_of[agent]
        text = self.game.observe(self._state, seat)
        return self.header + text + self._conduct.notices[seat]

    def observation(self, agent: str) -> Observation:
        """What one agent sees now, in a fresh dict."""
        acts = self._seat_of[agent] in self._pending
        return {"text": self.text(agent), "turn": self._turn, "can_act": 1 if acts else 0}

    def rewards(self) -> dict[str, float]:
        """What the last step paid every agent, in reward units and in a fresh dict."""
        paid = map(sub, self.paid, self._paid_before)
        rewards = dict(zip(self.possible_agents, paid))  # noqa: B905 - a seat each
        if self._faults:
            for seat, (_, cost) in self._faults.items():
                rewards[self.possible_agents[seat]] += cost
        return rewards

    def info(self, agent: str) -> dict[str, Any]:
        """One agent's info, beside its observation, in a fresh dict."""
        seat = self._seat_of[agent]
        label, cost = self._faults.get(seat, _NO_FAULT) if self._faults else _NO_FAULT
        info: dict[str, Any] = {
            "reward_components": {
                "outcome": self.paid[seat] - self._paid_before[seat],
                "format": cost,
            },
            "invalid": label,
            "played": self._played.get(seat),
            "attempts_left": self._attempts - self._conduct.tries[seat],
        }
        if seat in self._pending:
            legal = self.game.legal(self._state, seat)
            if legal is not None:
                info["legal_actions"] = list(replies_of(tuple(legal)))
        if not self.agents:
            info["statistics"] = dict(self.game.components(self._state, seat))
            info["forfeited"] = seat in self.forfeited
        return info

    def references(self, agent: str) -> dict[str, Any]:
        """What decides whether the agent's next move is right; no player may see it.

        See `Game.references`. Observations, infos and transcripts are without it.
        """
        return dict(self.game.references(self._state, self._seat_of[agent]))

    def sample_legal(self, seat: int, rng: np.random.Generator) -> str:
        """A random legal action body for a seat on move, drawn from ``rng``."""
        return self.game.sample(self._state, seat, rng)

    def leaving(self, seat: int) -> tuple[float, ...]:
        """What every seat would be paid, beside what it was paid, if ``seat`` left now; the game goes on.

        Returns:
            Reward units per seat.

        Raises:
            EpisodeOverError: called before `reset`.
        """
        self._require_started()
        due = self.game.forfeit(self._state, seat)
        return tuple(map(sub, due, self.paid))

    def render(self) -> str | None:
        """The whole position as a spectator sees it: returned for "ansi", printed for "human".

        Raises:
            EpisodeOverError: called before `reset`.
        """
        self._require_started()
        text = self.game.render(self._state)
        if self.render_mode == "human":
            print(text)  # noqa: T201 - what render_mode="human" means
            return None
        return text

    def close(self) -> None:
        """Give back what the game holds (code games hold a sandbox)."""
        self.game.close()

    def reshuffle(self, number: int) -> None:
        """Draw anew what is still left to chance in this episode; see `Game.reshuffled`.

        Args:
            number: 0 or more; equal numbers at equal positions give equal draws.

        Raises:
            EpisodeOverError: called before `reset`.
        """
        self._require_started()
        entropy = episode_entropy(*self._name_and_version, self.split, self.seed)
        draws = Draws(*entropy, _RESHUFFLED, self._turn, number)
        self._streams.chance = draws.generator()
        self._state = self.game.reshuffled(self._state, draws)

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
            "paid": list(self.paid),
            "outcomes": None if self.outcomes is None else list(self.outcomes),
            "forfeited": list(self.forfeited),
            "truncated": self.truncated,
            "chance": self._streams.chance.bit_generator.state,
            "live": bool(self.agents),
            **self._conduct.encode(),
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
        self._conduct = Conduct(self.game.seats, self._attempts, self.forfeit_after)
        self._conduct.decode(data)
        self.paid = tuple(data["paid"])
        self.outcomes = None if data["outcomes"] is None else tuple(data["outcomes"])
        self.forfeited, self.truncated = tuple(data["forfeited"]), data["truncated"]
        self.agents = list(self.possible_agents) if data["live"] else []
        to_move = self.game.to_move(self._state) if data["live"] else ()
        self._stand(tuple(seat for seat in to_move if seat not in self._bodies))
        return self._described()

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
        # PettingZoo's suites pass an option called "options" to every environment
        unknown = [name for name in options or {} if name not in ("split", "options")]
        if unknown:
            raise ConfigError(
                f"{self.env_spec.id}: reset has no option {unknown[0]!r}. It takes 'split': one of "
                f"{', '.join(SPLITS)}."
            )
        split: Split = (options or {}).get("split", self.default_split)
        _check(self.env_spec.id, "split", split, SPLITS)
        return split

    def _apply(self, accepted: Mapping[int, Any]) -> None:
        """All that were asked have moved: the game goes on, or ends."""
        game = self.game
        self._state = state = game.apply(self._state, accepted)
        self._pending = pending = game.to_move(state)
        self.on_move = self._names_of[pending]
        if not pending:
            self.forfeited = self._conduct.idle()
            self._end(self._forfeit_outcomes() if self.forfeited else game.returns(state))
        elif self._earns:
            self._pay(game.earned(state))

    def _sort_replies(
        self, accepted: Mapping[int, Any], bodies: Mapping[int, str], refused: Mapping[int, Refusal]
    ) -> None:
        """Keep what was accepted; let the rest retry, play for them or forfeit; go on if all moved."""
        waiting: list[int] = []
        forfeits: list[int] = []
        faults: dict[int, Fault] = {}
        self._accepted.update(accepted)
        self._bodies.update(bodies)
        for seat, (label, problem) in refused.items():
            faults[seat] = label, self._conduct.charge(seat)
            if not self._recover(seat, problem):
                forfeits.append(seat)
            elif seat not in self._accepted:
                waiting.append(seat)
        self._conduct.clear(accepted)
        self._faults, self.pays = faults, bool(faults)
        kept = self._bodies
        self._played = {seat: kept[seat] for seat in (*bodies, *refused) if seat in kept}
        if forfeits:
            self.forfeited, self._played = tuple(forfeits), _NOTHING_PLAYED
            self._end(self._forfeit_outcomes())
        elif waiting:
            self._pending = tuple(waiting)
            self.on_move = self._names_of[self._pending]
        else:
            accepted, self._accepted, self._bodies = self._accepted, {}, {}
            self._apply(accepted)

    def _recover(self, seat: int, problem: str) -> bool:
        """Retry, play for the seat, or return False when it forfeits."""
        if self.invalid == "forfeit":
            return False
        conduct, game = self._conduct, self.game
        if conduct.may_retry(seat, problem):
            return True
        if self.invalid == "random_legal":
            body = game.sample(self._state, seat, self._streams.chance)
        elif conduct.may_default(seat):
            body = game.fallback(self._state, seat)
        else:
            return False
        conduct.clear((seat,))
        self._bodies[seat], self._accepted[seat] = body, game.parse(self._state, seat, body)
        return True

    def _forfeit_outcomes(self) -> tuple[float, ...]:
        """Outcome per seat; where several forfeit at once, the mean, so that no seat's number counts."""
        each = [self.game.forfeit(self._state, seat) for seat in self.forfeited]
        return tuple(sum(paid) / len(each) for paid in zip(*each, strict=True))

    def _end(self, outcomes: tuple[float, ...] | None) -> None:
        self.outcomes = outcomes
        self._pay(outcomes)

    def _pay(self, due: tuple[float, ...] | None) -> None:
        """Pay what is due by now and was not paid before."""
        if due is not None and due != self.paid:
            self.paid, self.pays = due, True

    def _described(self) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Observations and infos of all seats; the text of each is written once."""
        observations: dict[str, Observation] = {}
        infos: dict[str, dict[str, Any]] = {}
        for agent in self.possible_agents:
            observations[agent] = self.observation(agent)
            infos[agent] = self.info(agent)
        return observations, infos


class _Names(dict[tuple[int, ...], tuple[str, ...]]):
    """Cache of the agents' names for sets of seats."""

    def __missing__(self, seats: tuple[int, ...]) -> tuple[str, ...]:
        names = self[seats] = tuple([seat_name(seat) for seat in seats])
        return names


def _check(env_id: str, name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        hint = (
            nearest(value, [a for a in allowed if isinstance(a, str)])
            if isinstance(value, str)
            else ""
        )
        raise ConfigError(f"{env_id}: {name}={value!r} is not one of {allowed}.{hint}")
