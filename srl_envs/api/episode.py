"""Play one episode with plain ``text -> text`` callables; record it; replay the record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_envs.api.making import make
from srl_envs.errors import PolicyError, SRLError, TranscriptError, file_fault
from srl_envs.reading.wrapper_kinds import code_named_by
from srl_envs.registry import Policy, names_code
from srl_envs.turns.seating import require_seated, seat_policies

if TYPE_CHECKING:
    from srl_envs.parallel import GameEnv

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One joint step: who replied what, and what it paid."""

    replies: dict[int, str]
    """Seat -> full reply, for the seats that were on move."""
    rewards: tuple[float, ...]
    """Reward units per seat."""
    invalid: tuple[str | None, ...]
    """Per seat: None, ``malformed`` or ``illegal``."""
    thoughts: dict[int, str] = field(default_factory=dict, compare=False)
    """Seat -> what was written before its reply. No rule reads it, and neither digest nor replay vouches
    for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcript:
    """One play-through: enough to replay it, and what it must come to."""

    env_id: str
    options: dict[str, Any]
    split: str
    seed: int
    """Of the episode, 0 or more."""
    steps: tuple[Step, ...]
    outcomes: tuple[float, ...]
    """Outcome per seat; 0 for all where the episode was truncated."""
    rewards: tuple[float, ...]
    """Total reward per seat."""
    components: tuple[dict[str, float], ...]
    """Per seat: sums of ``outcome`` and ``format``, and the game's own statistics."""
    forfeited: tuple[int, ...]
    """Seats that forfeited, from 0."""
    truncated: bool
    digest: str
    """SHA-256 chain over everything that was seen and replied."""
    reshuffles: tuple[tuple[int, int], ...] = ()
    """(steps before it, number) of each `GameEnv.reshuffle`, in their order."""

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Transcript:
        """From plain values, as JSON gives them back; the inverse of `data`."""
        steps = tuple(
            Step(
                replies={int(seat): text for seat, text in step["replies"].items()},
                rewards=tuple(step["rewards"]),
                invalid=tuple(step["invalid"]),
                thoughts={int(k): str(text) for k, text in step.get("thoughts", {}).items()},
            )
            for step in data["steps"]
        )
        reshuffles = tuple((int(n), int(number)) for n, number in data.get("reshuffles", ()))
        tuples = ("outcomes", "rewards", "components", "forfeited")
        given = {**data, "steps": steps, "reshuffles": reshuffles}
        return cls(**{**given, **{name: tuple(data[name]) for name in tuples}})

    def data(self, *, thoughts: bool = True) -> dict[str, Any]:
        """Plain values; steps without thoughts say nothing of them.

        Args:
            thoughts: whether those of seats that thought belong to it.
        """
        plain = asdict(self)
        for step in plain["steps"]:
            if not (thoughts and step["thoughts"]):
                del step["thoughts"]
        if not self.reshuffles:
            del plain["reshuffles"]
        return plain

    def differs(self, other: Transcript) -> tuple[str, ...]:
        """Names of the parts that are not the same."""
        names = (part.name for part in fields(self))
        return tuple(name for name in names if getattr(self, name) != getattr(other, name))

    def save(self, path: str | Path) -> None:
        """Write JSON lines: a header, one line per step, and the result."""
        data = self.data()
        steps = data.pop("steps")
        header = {
            "format": FORMAT_VERSION,
            **{k: data.pop(k) for k in ("env_id", "options", "split", "seed")},
        }
        lines = [json.dumps(line) for line in (header, *steps, data)]
        Path(path).write_text("\n".join(lines) + "\n")


def play(
    env: GameEnv | str,
    policies: Mapping[int, Policy | str],
    seed: int | None = None,
    *,
    split: str | None = None,
    on_step: Callable[[dict[str, dict[str, Any]], Step], None] | None = None,
) -> Transcript:
    """Play one episode.

    Args:
        env: from `srl_envs.make`; an id is made with its default options, and closed at the end.
        policies: seat (0, 1, ...) -> name of a bot, or a callable that gets the observation's text and
            returns a reply. Named bots are made anew for the episode, from its seed.
        seed: of the episode; None continues the environment's own stream of seeds.
        split: "train" or "eval"; None keeps the environment's own.
        on_step: called after each step with the observations that were answered and the `Step`.

    Returns:
        The transcript; `replay` plays it again.

    Raises:
        ConfigError: a seat has no policy, or one that is neither a bot's name nor callable.
        UnknownEnvironmentError: no such id.
        UnknownPolicyError: the environment has no such bot.
        PolicyError: a policy raised; the episode is void. Errors of SRL pass as they are.
        SandboxError: the environment's own machinery failed; the episode is void.
    """
    if isinstance(env, str):
        with closing(make(env)) as made:
            return play(made, policies, seed, split=split, on_step=on_step)
    require_seated(env, policies)
    seated: dict[int, Policy] = {}

    def reply(seat: int, text: str) -> str:
        if not seated:  # named bots need the seed of the episode that has just begun
            seated.update(seat_policies(env, policies))
        try:
            return seated[seat](text)
        except SRLError:
            raise
        except Exception as error:  # foreign code: say whose fault it was
            raise PolicyError(
                f"{env.env_spec.id}, seed {env.seed}: the policy of seat {seat} raised "
                f"{type(error).__name__}: {error}"
            ) from error

    return _run(env, reply, seed, split, on_step)


def replay(transcript: Transcript, env: GameEnv | None = None) -> Transcript:
    """Play the recorded replies again, in a fresh environment unless one is given.

    Raises:
        TranscriptError: the observations or rewards differ from what the transcript claims, or no
            environment is given and `remake` refuses.
        ConfigError: the options make no environment here.
    """
    env = env or remake(transcript)
    steps = iter(transcript.steps)
    current: dict[int, str] = {}

    def reply(seat: int, _text: str) -> str:
        nonlocal current
        if seat not in current:
            try:
                current = dict(next(steps).replies)
            except StopIteration:
                raise TranscriptError("the recording ends before the game does.") from None
        try:
            return current.pop(seat)
        except KeyError:
            raise TranscriptError(
                f"the recording has no reply of seat {seat} at this point."
            ) from None

    again = _run(
        env, reply, transcript.seed, transcript.split, None, reshuffles=transcript.reshuffles
    )
    if again != transcript:
        raise TranscriptError(
            f"the recording of {transcript.env_id} seed {transcript.seed} does not replay to what it "
            f"claims: {', '.join(transcript.differs(again))} differ."
        )
    return again


def remake(transcript: Transcript) -> GameEnv:
    """The environment of a transcript, wrappers included.

    Raises:
        TranscriptError: the environment or a wrapper is code that the transcript only names. A file may
            come from anywhere, so nothing that it names is imported.
        ConfigError: the options make no environment here.
    """
    code = (*filter(names_code, [transcript.env_id]), *code_named_by(transcript.options))
    if code:
        raise TranscriptError(
            f"recorded through {', '.join(code)}, which a record may name but not run: make the "
            "same environment and call replay(transcript, env)."
        )
    return make(transcript.env_id, **transcript.options)


def load_transcript(path: str | Path) -> Transcript:
    """Read what `Transcript.save` wrote.

    Raises:
        TranscriptError: the file is missing, cut short or no transcript.
    """
    try:
        lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
        if len(lines) < 2:
            raise TranscriptError(f"{path} is not a transcript: it has {len(lines)} lines.")
        header, *steps, result = lines
        if header.pop("format") != FORMAT_VERSION:
            raise TranscriptError(f"{path}: written by another version of SRL.")
        return Transcript.from_data({**header, "steps": steps, **result})
    except OSError as error:
        raise TranscriptError(f"{file_fault(error, path)}.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, TranscriptError):
            raise
        raise TranscriptError(
            f"{path} is not a transcript: {type(error).__name__}: {error}"
        ) from None


def rotate_seats(policies: Mapping[int, Policy], by: int = 1) -> dict[int, Policy]:
    """The same policies, each ``by`` seats further: with the same seed, a mirrored match."""
    return {(seat + by) % len(policies): policy for seat, policy in policies.items()}


class Recorder:
    """Collects the steps of one live episode into a `Transcript`; also used outside `play`."""

    def __init__(self, env: GameEnv, observations: Mapping[str, dict[str, Any]]) -> None:
        self._env = env
        self._options = env.options
        self._steps: list[Step] = []
        self._reshuffles: list[tuple[int, int]] = []
        self._sums: list[dict[str, float]] = [
            {"outcome": 0.0, "format": 0.0} for _ in env.possible_agents
        ]
        self._rewards = [0.0] * len(env.possible_agents)
        head = [env.env_spec.id, self._options, env.split, env.seed]
        self._chain = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        self._see(observations)

    def add(
        self,
        replies: dict[int, str],
        result: tuple[Any, ...],
        thoughts: Mapping[int, str] | None = None,
    ) -> Step:
        """Record the joint ``replies``, what `GameEnv.step` returned for them, and what was thought."""
        observations, rewards, _, _, infos = result
        agents = self._env.possible_agents
        step = Step(
            replies=dict(replies),
            rewards=tuple(rewards[agent] for agent in agents),
            invalid=tuple(infos[agent]["invalid"] for agent in agents),
            thoughts={seat: text for seat, text in (thoughts or {}).items() if text},
        )
        self._steps.append(step)
        for seat, agent in enumerate(agents):
            self._rewards[seat] += rewards[agent]
            for name, value in infos[agent]["reward_components"].items():
                self._sums[seat][name] = self._sums[seat].get(name, 0.0) + value
            for name, value in infos[agent].get("statistics", {}).items():
                self._sums[seat][name] = float(value)
        self._chain.update(json.dumps(sorted(replies.items())).encode())
        self._see(observations)
        return step

    def reshuffle(self, number: int) -> None:
        """Draw anew what is left to chance, and record it; see `GameEnv.reshuffle`."""
        self._env.reshuffle(number)
        self._reshuffles.append((len(self._steps), number))
        self._chain.update(json.dumps(["reshuffle", number]).encode())

    def transcript(self) -> Transcript:
        """The finished record."""
        env = self._env
        return Transcript(
            env_id=env.env_spec.id,
            options=self._options,
            split=env.split,
            seed=env.seed,
            steps=tuple(self._steps),
            outcomes=env.outcomes or env.paid,
            rewards=tuple(self._rewards),
            components=tuple(self._sums),
            forfeited=env.forfeited,
            truncated=env.outcomes is None,
            digest=self._chain.hexdigest(),
            reshuffles=tuple(self._reshuffles),
        )

    def _see(self, observations: Mapping[str, dict[str, Any]]) -> None:
        for agent in self._env.possible_agents:
            # surrogates may come in with a reply that the game shows to others
            self._chain.update(observations[agent]["text"].encode("utf-8", "surrogatepass"))


def _run(
    env: GameEnv,
    reply: Callable[[int, str], str],
    seed: int | None,
    split: str | None,
    on_step: Callable[[dict[str, dict[str, Any]], Step], None] | None,
    *,
    reshuffles: Sequence[tuple[int, int]] = (),
) -> Transcript:
    observations, _ = env.reset(seed=seed, options={"split": split} if split else None)
    recorder, left, steps = Recorder(env, observations), [*reshuffles], 0
    while env.agents:
        while left and left[0][0] == steps:
            recorder.reshuffle(left.pop(0)[1])
        steps += 1
        replies = {
            seat: reply(seat, observations[agent]["text"])
            for seat, agent in enumerate(env.possible_agents)
            if observations[agent]["can_act"]
        }
        result = env.step({env.possible_agents[seat]: text for seat, text in replies.items()})
        step = recorder.add(replies, result)
        if on_step is not None:
            on_step(observations, step)
        observations = result[0]
    return recorder.transcript()
