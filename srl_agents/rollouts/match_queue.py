"""The matches of one call: handed out in the order of their specs, taken back as they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from srl_agents.agents.players import Policy
from srl_agents.records import Episode, MatchSpec, canonical_json
from srl_agents.rollouts.branches import prefix_of
from srl_agents.rollouts.match import Group, Match, match_key
from srl_envs import make
from srl_envs.api.episode import Transcript
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from srl_envs.parallel import GameEnv

Progress = Callable[[int], None]
"""Called with the number of matches that have ended since the last call."""
Finished = Callable[[Episode, Transcript], None]
"""Called with each match as it ends, for callers that must not lose it."""


class IdleEnvs:
    """Environments between two matches, by what they were made with."""

    def __init__(self) -> None:
        self._idle: dict[str, list[GameEnv]] = {}

    def prepare(self, spec: MatchSpec) -> None:
        """See that there is one for this spec.

        Raises:
            ConfigError: it has not as many seats as the spec names.
        """
        idle = self._idle.setdefault(_kind(spec), [])
        if not idle:
            idle.append(_make(spec))
        seats = len(idle[-1].possible_agents)
        if seats != len(spec.seats):
            raise ConfigError(
                f"{spec.env_id} has {seats} seats; the match names {len(spec.seats)}."
            )

    def take(self, spec: MatchSpec) -> GameEnv:
        """One for this spec, made if none is idle."""
        idle = self._idle.get(_kind(spec))
        return idle.pop() if idle else _make(spec)

    def give_back(self, match: Match) -> None:
        """Keep a match's environment for the next one."""
        if match.env_is_free:
            self._idle.setdefault(_kind(match.spec), []).append(match.env)

    def close(self) -> None:
        """Close all."""
        for envs in self._idle.values():
            for env in envs:
                env.close()
        self._idle.clear()


class MatchQueue:
    """Hands out matches, and keeps and reports their episodes.

    Args:
        specs: of the matches.
        policies: policy version id -> policy.
        root_seed: of the run.
        contents: policy version id -> digest of its contents.
        envs: to play in.
        finished: see `Finished`.
        references: see `Match`.
        parents: match id -> episode, of the matches that branches leave.

    Raises:
        ConfigError: a spec names a policy that is not there, has a wrong number of seats, trains on replies
            of an engine that reports no tokens, or is a branch of another parent than is given.
    """

    def __init__(
        self,
        specs: Sequence[MatchSpec],
        policies: Mapping[str, Policy],
        *,
        root_seed: int,
        contents: Mapping[str, str],
        envs: IdleEnvs,
        finished: Finished | None,
        references: bool = False,
        parents: Mapping[str, Episode] | None = None,
    ) -> None:
        self._specs, self._policies, self._envs = specs, policies, envs
        self._root_seed, self._contents, self._finished = root_seed, contents, finished
        self._references = references
        self._line = deque(range(len(specs)))
        """Numbers of matches that have not begun."""
        self._episodes: dict[int, Episode] = {}
        self._groups: dict[tuple[str, ...], Group] = {}
        self._prefixes = [
            prefix_of(spec, branch, parents or {}) if (branch := spec.branch) else None
            for spec in specs
        ]
        for spec in specs:
            self._groups.setdefault(_group(spec), Group(0)).size += 1
            _check_seats(spec, policies)
            envs.prepare(spec)

    def take(self, most: int) -> list[Match]:
        """The next matches, at most so many; none at the end."""
        taken = [self._line.popleft() for _ in range(min(most, len(self._line)))]
        return [self._match(index) for index in taken]

    def play_again(self) -> int:
        """Hand out again what was taken and has not ended; how many matches are left in all."""
        self._line = deque(n for n in range(len(self._specs)) if n not in self._episodes)
        return len(self._line)

    def done(self, match: Match) -> None:
        """Keep and report a match that has ended; its environment is free, whatever the report raises."""
        if match.ended is None:
            raise RuntimeError(f"match {match.index} has not ended.")
        episode, transcript = match.ended
        self._episodes[match.index] = episode
        self._envs.give_back(match)
        if self._finished is not None:
            self._finished(episode, transcript)

    def give_up(self, match: Match) -> None:
        """Take back a match that will not be played to its end."""
        self._envs.give_back(match)

    def episodes(self) -> list[Episode]:
        """All, in the order of the specs."""
        return [self._episodes[index] for index in range(len(self._specs))]

    def _match(self, index: int) -> Match:
        spec = self._specs[index]
        key = match_key(self._root_seed, spec, self._contents)
        env = self._envs.take(spec)
        group = self._groups[_group(spec)]
        return Match(
            index,
            spec,
            env,
            self._policies,
            key,
            references=self._references,
            group=group,
            prefix=self._prefixes[index],
        )


def _check_seats(spec: MatchSpec, policies: Mapping[str, Policy]) -> None:
    for seat, name in enumerate(spec.seats):
        if name not in policies:
            raise ConfigError(f"match {spec.match_id}: no policy {name!r} was given.")
        engine = getattr(policies[name], "engine", None)
        if engine is None or seat not in spec.learner_seats:
            continue
        able = engine.capabilities
        if not (able.token_ids and able.logprobs):
            raise ConfigError(
                f"match {spec.schedule}: {name!r} learns in seat {seat}, but its engine reports no tokens "
                "or no log-probabilities. Give it an engine that does."
            )


def _make(spec: MatchSpec) -> GameEnv:
    env: Any = make(spec.env_id, **spec.options)
    return env  # type: ignore[no-any-return]


def _group(spec: MatchSpec) -> tuple[str, ...]:
    """Attempts of one group agree in it."""
    return (spec.env_id, spec.cluster, *spec.seats)


def _kind(spec: MatchSpec) -> str:
    return canonical_json([spec.env_id, spec.options])
