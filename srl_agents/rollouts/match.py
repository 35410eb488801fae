"""One live match: its environment, the players in its seats, what they did so far, and their seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from srl_agents.agents.players import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.engines.protocol import Engine, Generation, GenerationRequest
from srl_agents.models.prompt import EarlierTurn
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_agents.rollouts.branches import Prefix, number_of
from srl_envs.api.episode import Recorder, Transcript
from srl_envs.errors import ConfigError, InvalidActionError, PolicyError, SandboxError, SRLError

if TYPE_CHECKING:
    from srl_envs.parallel import GameEnv
    from srl_envs.registry import Policy as TextPolicy

_VOIDING = (SandboxError, InvalidActionError, PolicyError)
"""Errors that void the match that raises them, and no other."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One reply that a match waits for."""

    seat: int
    engine: Engine
    request: GenerationRequest


@dataclass(slots=True)
class _Turn:
    """A turn while later steps may still pay for it."""

    index: int
    observation: str
    text: str
    generation: Generation | None
    """None: a bot wrote the text."""
    step: int
    kept: Turn | None = None
    """The parent's turn, of which a branch gives the reply again."""
    invalid: str | None = None
    reward: float = 0.0
    components: dict[str, float] = field(default_factory=dict)
    references: dict[str, Any] = field(default_factory=dict)
    answer: str | None = None

    def freeze(self) -> Turn:
        if self.kept is not None:
            return replace(
                self.kept,
                turn_index=self.index,
                step=self.step,
                invalid=self.invalid,
                reward=self.reward,
                components=self.components,
                inherited=True,
            )
        written = self.generation
        return Turn(
            turn_index=self.index,
            observation=self.observation,
            reply=self.text,
            invalid=self.invalid,
            reward=self.reward,
            components=self.components,
            step=self.step,
            version="" if written is None or written.version is None else str(written.version),
            prompt_ids=() if written is None else written.prompt_ids,
            completion_ids=() if written is None else written.token_ids,
            logprobs=() if written is None else written.logprobs,
            finish="scripted" if written is None else written.finish,
            served=None if written is None else written.served,
            thoughts="" if written is None else written.thoughts,
            thought_tokens=0 if written is None else written.thought_tokens,
            forced_tokens=0 if written is None else written.forced_tokens,
            references=self.references,
            answer=self.answer,
        )

    def earlier(self) -> EarlierTurn:
        """The turn as its seat's memory shows it later."""
        if self.kept is not None:
            kept = self.kept
            return EarlierTurn(self.observation, kept.completion_ids, kept.thought_tokens)
        written = self.generation
        return EarlierTurn(
            self.observation,
            () if written is None else written.token_ids,
            0 if written is None else written.thought_tokens,
        )


@dataclass(slots=True)
class Group:
    """Attempts from one start state: none is learned from before all have ended."""

    size: int = 1
    turns_ended: int = 0
    """Turns of attempts that have ended."""


class Match:
    """A match that steps until it needs replies of engines, and goes on when it gets them.

    `begin` and `advance` run bots and environments, so they may take long; call one at a time, off the
    event loop.

    Args:
        index: of the spec in the call that plays it.
        spec: of the match.
        env: made for it; free again when `ended` is there.
        policies: policy version id -> policy.
        key: first part of its replies' keys; see `sampling_key`.
        references: whether turns of learning seats keep what decides whether they are right.
        group: the attempts from one start state, of which it is one.
        prefix: what a branch keeps of its parent.
    """

    ended: tuple[Episode, Transcript] | None
    """None while it is live."""
    env_is_free: bool
    """False while an abandoned step still runs."""
    key: tuple[int, ...]
    """Prefix of the keys of all its requests."""
    group: Group
    """The attempts from one start state, of which it is one."""

    def __init__(
        self,
        index: int,
        spec: MatchSpec,
        env: GameEnv,
        policies: Mapping[str, Policy],
        key: tuple[int, ...],
        *,
        references: bool = False,
        group: Group | None = None,
        prefix: Prefix | None = None,
    ) -> None:
        self.index, self.spec, self.env = index, spec, env
        self.group = group or Group()
        self.ended, self.env_is_free = None, True
        self._begun = False
        self.key = key
        self._judged_seats = frozenset(spec.learner_seats if references else ())
        self._policies = [policies[name] for name in spec.seats]
        self._bots: dict[int, TextPolicy] = {}
        self._turns: list[list[_Turn]] = [[] for _ in spec.seats]
        self._count = 0
        self._texts: dict[int, str] = {}
        """Replies of bots to what is seen now."""
        self._prefix = prefix
        self._steps = 0
        self._kept: Mapping[int, Turn] = {}
        """Seat -> the parent's turn, in this step."""
        self._order: tuple[int, ...] = ()
        """Of the seats on move, in a step of the parent; else bots come first."""

    @property
    def engines(self) -> list[Engine]:
        """Engines that write replies in it, each once."""
        asked = (p.engine for p in self._policies if isinstance(p, ModelPolicy))
        return list({id(engine): engine for engine in asked}.values())

    def begin(self) -> list[Ask]:
        """Start the episode, and step until a model is on move.

        Returns:
            What it waits for; nothing where the match has ended.
        """
        self._bots = {
            seat: policy.player(self.spec.env_id, bot_seed(self.spec, seat))
            for seat, policy in enumerate(self._policies)
            if isinstance(policy, ScriptedPolicy)
        }
        options = {"split": self.spec.split}
        self._observations, _ = self.env.reset(seed=self.spec.seed, options=options)
        self._recorder = Recorder(self.env, self._observations)
        self._begun = True
        return self._unless_void(self._until_asked if self._prefix is None else self._from_parent)

    def advance(self, written: Mapping[int, Generation]) -> list[Ask]:
        """Take the replies that were asked for, seat -> reply, and go on as `begin` does."""

        def go_on() -> list[Ask]:
            self._step(written)
            return self._until_asked()

        return self._unless_void(go_on)

    def void(self, fault: SRLError) -> None:
        """End it, because our own machinery failed; no seat is charged.

        Raises:
            SRLError: the fault itself, where the episode has not begun.
        """
        if not self._begun:
            raise fault
        self._end(f"{type(fault).__name__}: {fault}")

    def _unless_void(self, go_on: Callable[[], list[Ask]]) -> list[Ask]:
        try:
            asks = go_on()
        except _VOIDING as error:
            self.void(error)
            return []
        if not asks:
            self._end()
        return asks

    def _end(self, fault: str = "") -> None:
        """Keep what it came to; a step that was given up changes nothing any more."""
        if self.ended is None:
            transcript = self._recorder.transcript()
            self.ended = (self._episode(transcript, fault), transcript)
            self.group.turns_ended += self._count

    def _from_parent(self) -> list[Ask]:
        """Give the parent's replies again up to the decision, and go on from there."""
        kept = self._prefix
        assert kept is not None
        for step in kept.steps:
            self._draw_anew(kept)
            self._keep(step, tuple(step), {seat: turn.observation for seat, turn in step.items()})
            self._step({})
        self._draw_anew(kept)
        branch = self.spec.branch
        if branch is not None and branch.chances == "fresh":
            self._recorder.reshuffle(number_of(self.spec))
        self._keep(kept.beside, kept.order, kept.seen)
        return self._until_asked()

    def _draw_anew(self, kept: Prefix) -> None:
        """Draw chance anew where the parent did before this step."""
        for step, number in kept.reshuffles:
            if step == self._steps:
                self._recorder.reshuffle(number)

    def _keep(
        self, turns: Mapping[int, Turn], order: tuple[int, ...], seen: Mapping[int, str]
    ) -> None:
        """Let seats reply in this step as they did in the parent; their bots see it, and go on from there.

        Raises:
            ConfigError: the game shows something else than it showed the parent.
        """
        on_move = self._seats_on_move() if self.env.agents else []
        if {seat: self._text(seat) for seat in on_move} != seen:
            raise ConfigError(
                f"branch {self.spec.match_id}: in step {self._steps} {self.spec.env_id} shows something else "
                "than it showed the parent; the game or its data have changed since."
            )
        self._kept, self._order = turns, order
        for seat in turns:
            if seat in self._bots:
                self._ask(seat)
        self._texts = {}

    def _until_asked(self) -> list[Ask]:
        """Step while only bots are on move."""
        while self.env.agents:
            asks = [
                ask
                for seat in self._seats_on_move()
                if seat not in self._kept and (ask := self._ask(seat)) is not None
            ]
            if asks:
                return asks
            self._step({})
        return []

    def _seats_on_move(self) -> list[int]:
        return [
            seat
            for seat, agent in enumerate(self.env.possible_agents)
            if self._observations[agent]["can_act"]
        ]

    def _text(self, seat: int) -> str:
        return str(self._observations[self.env.possible_agents[seat]]["text"])

    def _ask(self, seat: int) -> Ask | None:
        """The request for a model in this seat; None for a bot, which replies at once."""
        policy, text = self._policies[seat], self._text(seat)
        if isinstance(policy, ModelPolicy):
            key = (*self.key, seat, len(self._turns[seat]))
            earlier = tuple(turn.earlier() for turn in self._turns[seat])
            request = replace(
                policy.request(text, key, earlier),
                priority=-(self._count + self.group.turns_ended / self.group.size),
                turns_ahead=self._turns_between(seat),
            )
            return Ask(seat, policy.engine, request)
        try:
            self._texts[seat] = self._bots[seat](text)
        except Exception as error:  # foreign code: it voids only its own match
            raise PolicyError(f"seat {seat} raised {type(error).__name__}: {error}") from error
        return None

    def _turns_between(self, seat: int) -> int | None:
        """How many turns of others lay between the seat's last two; None before it had two."""
        own = self._turns[seat]
        return self._count - own[-1].index - 1 if own else None

    def _step(self, written: Mapping[int, Generation]) -> None:
        """Give the replies of all seats on move, and book what the step paid."""
        agents = self.env.possible_agents
        texts = self._texts | {seat: generation.text for seat, generation in written.items()}
        texts |= {seat: turn.reply for seat, turn in self._kept.items()}
        texts = {seat: texts[seat] for seat in self._order or texts}
        kept, self._kept, self._order, self._texts = self._kept, {}, (), {}
        for seat, text in texts.items():
            turn = _Turn(
                self._count, self._text(seat), text, written.get(seat), self._steps, kept.get(seat)
            )
            if seat in self._judged_seats and seat not in kept:
                turn.references = self.env.references(agents[seat])
            self._turns[seat].append(turn)
            self._count += 1
        result = self.env.step({agents[seat]: text for seat, text in texts.items()})
        self._steps += 1
        thoughts = {seat: generation.thoughts for seat, generation in written.items()}
        thoughts |= {seat: turn.thoughts for seat, turn in kept.items()}
        self._recorder.add(texts, result, thoughts)
        self._observations, rewards, _, _, infos = result
        for seat, agent in enumerate(agents):
            if seat in texts:
                self._book_move(self._turns[seat][-1], infos[agent])
            if self._turns[seat]:
                last = self._turns[seat][-1]
                last.reward += rewards[agent]
                for name, value in infos[agent]["reward_components"].items():
                    last.components[name] = last.components.get(name, 0.0) + value

    def _book_move(self, turn: _Turn, info: Mapping[str, Any]) -> None:
        turn.invalid = info["invalid"]
        if (
            turn.references
            and turn.kept is None
            and turn.invalid is None
            and info["played"] is not None
        ):
            turn.answer = self.env.unwrapped.game.answered(info["played"])

    def _episode(self, transcript: Transcript, fault: str = "") -> Episode:
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
                    turns=tuple(turn.freeze() for turn in self._turns[seat]),
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
            reshuffles=transcript.reshuffles,
        )


def bot_seed(spec: MatchSpec, seat: int) -> int:
    """A bot's seed: the same start state and attempt give the same bot, against any opponents."""
    name = json.dumps([spec.cluster, spec.attempt, seat])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")


def match_key(
    root_seed: int, spec: MatchSpec, contents: Mapping[str, str] | None = None
) -> tuple[int, int]:
    """The part of `sampling_key` that all replies of a match share; same arguments."""
    if contents:
        spec = replace(spec, seats=tuple(contents.get(name, name) for name in spec.seats))
    return (root_seed, int(spec.match_id[:15], 16))


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
            reply: a name cannot be chosen for the numbers that it gives.
    """
    return (*match_key(root_seed, spec, contents), seat, turn)
