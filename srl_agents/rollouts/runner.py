"""Play many matches at once and keep every token that was sampled.

All live matches advance by one joint step per tick: scripted seats reply at once, and the requests
of all model seats, of all matches, go to the engine as one batch. What a reply is depends on the
match, the seat and the turn alone, never on which matches happened to run beside it. (Of an endpoint's
replies nobody knows what they depend on.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from srl_agents.agents.players import (
    EndpointPolicy,
    ModelPolicy,
    Policy,
    Reply,
    ScriptedPolicy,
    TurnRequest,
    answer,
)
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn, canonical_json
from srl_envs import make
from srl_envs.episode import Recorder, Transcript
from srl_envs.errors import ConfigError, InvalidActionError, SandboxError

if TYPE_CHECKING:
    from srl_envs.parallel import GameEnv
    from srl_envs.registry import Policy as TextPolicy

Progress = Callable[[int], None]
Finished = Callable[[Episode, Transcript], None]


@dataclass(slots=True)
class _Turn:
    """A turn while later steps may still pay for it."""

    index: int
    observation: str
    reply: Reply
    invalid: str | None = None
    reward: float = 0.0
    components: dict[str, float] = field(default_factory=dict)

    def freeze(self) -> Turn:
        return Turn(
            turn_index=self.index,
            observation=self.observation,
            reply=self.reply.text,
            invalid=self.invalid,
            reward=self.reward,
            components=self.components,
            prompt_ids=self.reply.prompt_ids,
            completion_ids=self.reply.completion_ids,
            logprobs=self.reply.logprobs,
            finish=self.reply.finish,
            served=self.reply.served,
        )


class _Match:
    """One live match."""

    def __init__(self, spec: MatchSpec, env: GameEnv, policies: Mapping[str, Policy]) -> None:
        self.spec, self.env = spec, env
        self.policies = [policies[name] for name in spec.seats]
        self.bots: dict[int, TextPolicy] = {
            seat: policy.player(spec.env_id, bot_seed(spec, seat))
            for seat, policy in enumerate(self.policies)
            if isinstance(policy, ScriptedPolicy)
        }
        self.turns: list[list[_Turn]] = [[] for _ in spec.seats]
        self.count = 0
        self.observations, _ = env.reset(seed=spec.seed, options={"split": spec.split})
        self.recorder = Recorder(env, self.observations)

    def seats_on_move(self) -> list[int]:
        return [
            seat
            for seat, agent in enumerate(self.env.possible_agents)
            if self.observations[agent]["can_act"]
        ]

    def text(self, seat: int) -> str:
        return str(self.observations[self.env.possible_agents[seat]]["text"])

    def step(self, replies: Mapping[int, Reply]) -> None:
        """Give the replies of all seats on move, and book what the step paid."""
        agents = self.env.possible_agents
        for seat, reply in replies.items():
            self.turns[seat].append(_Turn(self.count, self.text(seat), reply))
            self.count += 1
        texts = {seat: reply.text for seat, reply in replies.items()}
        result = self.env.step({agents[seat]: text for seat, text in texts.items()})
        self.recorder.add(texts, result)
        self.observations, rewards, _, _, infos = result
        for seat, agent in enumerate(agents):
            if seat in replies:
                self.turns[seat][-1].invalid = infos[agent]["invalid"]
            if self.turns[seat]:
                last = self.turns[seat][-1]
                last.reward += rewards[agent]
                for name, value in infos[agent]["reward_components"].items():
                    last.components[name] = last.components.get(name, 0.0) + value

    def episode(self, transcript: Transcript, fault: str = "") -> Episode:
        if fault:
            termination = "void"
        elif transcript.forfeited:
            termination = "forfeit"
        else:
            termination = "truncated" if transcript.truncated else "ok"
        return Episode(
            spec=self.spec,
            trajectories=tuple(
                Trajectory(
                    seat=seat,
                    policy=self.spec.seats[seat],
                    turns=tuple(turn.freeze() for turn in self.turns[seat]),
                    outcome=transcript.outcomes[seat],
                    total_reward=transcript.rewards[seat],
                    components=dict(transcript.components[seat]),
                )
                for seat in range(len(self.spec.seats))
            ),
            termination=termination,  # type: ignore[arg-type] # one of the four literals above
            forfeited=transcript.forfeited,
            fault=fault,
            transcript_sha256=transcript.digest,
        )


@dataclass(slots=True)
class _Batch:
    """Requests of one tick to one engine or endpoint."""

    answer: Callable[[list[Any]], list[Reply]]
    places: list[tuple[int, int]] = field(default_factory=list)
    """(match, seat) of each request."""
    requests: list[Any] = field(default_factory=list)

    def add(self, match: int, seat: int, request: Any) -> None:
        self.places.append((match, seat))
        self.requests.append(request)


class Runner:
    """Plays matches between named policies.

    Args:
        policies: policy version id -> policy; looked up when a match starts, so versions may be
            added and dropped between calls of `play`.
        root_seed: of the run; part of every sampled token's random number.
        concurrency: matches that are live at once.
        contents: policy version id -> digest of its contents, for those whose random numbers shall
            belong to what they are; the others' belong to their ids.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        *,
        root_seed: int,
        concurrency: int = 128,
        contents: Mapping[str, str] | None = None,
    ) -> None:
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}: use 1 or more.")
        self.policies = policies
        self.root_seed = root_seed
        self.concurrency = concurrency
        self.contents = contents or {}
        self._idle: dict[str, list[GameEnv]] = {}

    def play(
        self,
        specs: Sequence[MatchSpec],
        progress: Progress | None = None,
        finished: Finished | None = None,
    ) -> list[Episode]:
        """Play all matches.

        Args:
            specs: in any number; equal specs are played once each.
            progress: called with the number of finished matches after each tick that ended some.
            finished: called with each match as it ends, for whoever must not lose it.

        Returns:
            One episode per spec, in their order. Where our own machinery failed, or a bot raised, the
            episode is ``void`` and says why; nobody is charged.

        Raises:
            ConfigError: a spec names a policy that was not given, or has a wrong number of seats.
        """
        for spec in specs:
            for name in spec.seats:
                if name not in self.policies:
                    raise ConfigError(f"match {spec.schedule}: no policy {name!r} was given.")
        episodes: dict[int, Episode] = {}
        live: list[tuple[int, _Match]] = []
        upcoming = iter(enumerate(specs))
        while True:
            while len(live) < self.concurrency and (following := next(upcoming, None)):
                index, spec = following
                live.append((index, _Match(spec, self._env(spec), self.policies)))
            if not live:
                break
            ended = self._tick(live, episodes, finished)
            if ended:
                live = [(i, match) for i, match in live if i not in episodes]
                if progress is not None:
                    progress(ended)
        return [episodes[i] for i in range(len(specs))]

    def close(self) -> None:
        """Close the environments that were kept for re-use."""
        for envs in self._idle.values():
            for env in envs:
                env.close()
        self._idle.clear()

    def _tick(
        self,
        live: list[tuple[int, _Match]],
        episodes: dict[int, Episode],
        finished: Finished | None,
    ) -> int:
        """One joint step of every live match; returns how many ended."""
        replies, faults = self._replies([match for _, match in live])
        ended = 0
        for i, ((index, match), given) in enumerate(zip(live, replies, strict=True)):
            fault = faults.get(i, "")
            try:
                if not fault:
                    match.step(given)
            except (SandboxError, InvalidActionError) as error:
                fault = f"{type(error).__name__}: {error}"
            if fault or not match.env.agents:
                transcript = match.recorder.transcript()
                episodes[index] = match.episode(transcript, fault)
                if finished is not None:
                    finished(episodes[index], transcript)
                self._idle.setdefault(_kind(match.spec), []).append(match.env)
                ended += 1
        return ended

    def _replies(self, matches: list[_Match]) -> tuple[list[dict[int, Reply]], dict[int, str]]:
        """Seat -> reply of each match, and what went wrong in those whose bot raised."""
        replies: list[dict[int, Reply]] = [{} for _ in matches]
        faults: dict[int, str] = {}
        batches: dict[int, _Batch] = {}
        for i, match in enumerate(matches):
            for seat in match.seats_on_move():
                policy, text = match.policies[seat], match.text(seat)
                if isinstance(policy, ModelPolicy):
                    turn = len(match.turns[seat])
                    key = sampling_key(self.root_seed, match.spec, seat, turn, self.contents)
                    asked = TurnRequest(observation=text, key=key, examples=policy.examples)
                    engine = policy.engine
                    batch = batches.setdefault(id(engine), _Batch(partial(answer, engine)))
                    batch.add(i, seat, (policy.adapter, asked))
                elif isinstance(policy, EndpointPolicy):
                    endpoint = policy.endpoint
                    batch = batches.setdefault(id(endpoint), _Batch(endpoint.answer))
                    batch.add(i, seat, policy.chat(text))
                else:
                    try:
                        replies[i][seat] = Reply(text=match.bots[seat](text))
                    except Exception as error:  # noqa: BLE001 - foreign code: it voids its match alone
                        faults[i] = (
                            f"PolicyError: seat {seat} raised {type(error).__name__}: {error}"
                        )
        for batch in batches.values():
            written = batch.answer(batch.requests)
            for (i, seat), reply in zip(batch.places, written, strict=True):
                replies[i][seat] = reply
        return replies, faults

    def _env(self, spec: MatchSpec) -> GameEnv:
        idle = self._idle.get(_kind(spec))
        if idle:
            return idle.pop()
        env: Any = make(spec.env_id, **spec.options)
        if len(env.possible_agents) != len(spec.seats):
            raise ConfigError(
                f"{spec.env_id} has {len(env.possible_agents)} seats; the match names {len(spec.seats)}."
            )
        return env  # type: ignore[no-any-return]


def _kind(spec: MatchSpec) -> str:
    return canonical_json([spec.env_id, spec.options])


def bot_seed(spec: MatchSpec, seat: int) -> int:
    """A bot's seed: the same start state and attempt give the same bot, whoever it meets."""
    name = json.dumps([spec.cluster, spec.attempt, seat])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")


def sampling_key(
    root_seed: int, spec: MatchSpec, seat: int, turn: int, contents: Mapping[str, str] | None = None
) -> tuple[int, ...]:
    """What the random numbers of a reply belong to: the match, the seat and its turn, no neighbour.

    Args:
        root_seed: of the run.
        spec: of the match.
        seat: on move.
        turn: of this seat, from 0.
        contents: policy version id -> digest of its contents. With it, renaming an agent changes no
            reply: nobody can choose a name by the numbers that it gives.
    """
    if contents:
        spec = replace(spec, seats=tuple(contents.get(name, name) for name in spec.seats))
    return (root_seed, int(spec.match_id[:15], 16), seat, turn)
