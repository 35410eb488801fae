"""Score a model's recorded tokens again under the weights that it was declared with (level L3).

A reply's tokens were drawn by inverting the distribution at random numbers that belong to the match,
the seat and the turn. So one forward pass over prompt and reply shows both whether the log-probabilities
are those of the declared weights and whether each token is the one that its number selects. A player cannot
choose among several replies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leaderboards.bundles.agent_specs import is_model, shown_to
from leaderboards.bundles.agents import Built, Entrant, LoadedModel, build_agents
from leaderboards.bundles.submission import Bundle, adapter_folder
from leaderboards.contents.bases import base_source
from leaderboards.contents.claims import disagreement
from leaderboards.contents.intake import ADAPTER_WEIGHTS, BundleError
from leaderboards.contents.record import MatchRecord
from leaderboards.protocol import ROOT_SEED
from srl_agents.agents.grammar import ModelName, parse
from srl_agents.agents.resolver import Candidate, adapter_shape
from srl_agents.league.agents import AgentVersion
from srl_agents.models.sources.catalog import resolve
from srl_agents.rollouts.match import sampling_key
from srl_envs.errors import ConfigError, ModelError, UnknownPolicyError

if TYPE_CHECKING:  # torch comes with it
    from srl_agents.engines.embedded.rescoring import TokenScores
    from srl_agents.models.base_model import BaseModel

LOGPROB_TOLERANCE = 0.01
"""Nats per token. Batches of other shapes move a float32 log-probability by less than 1e-4."""
CDF_TOLERANCE = 1e-3
"""Tolerance of a cumulative probability, for random numbers at the border between two tokens."""
_BATCH_TOKENS = 8192

TurnPlace = tuple[int, int, int]
"""(place of the record, seat, turn)."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """One reply to score."""

    place: TurnPlace
    agent: str
    observation: str
    reply: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    key: tuple[int, ...]


class Auditor:
    """The models of a bundle, loaded and compared with what the bundle declares.

    Args:
        bundle: whose models.
        sources: agent id -> model, over what the bundle names.

    Raises:
        BundleError: weights, prompt, tokenizer or sampling are not the declared ones.
        ConfigError: an adapter is neither in the bundle nor given.
    """

    def __init__(self, bundle: Bundle, sources: Mapping[str, str]) -> None:
        self._bundle = bundle
        models = [agent for agent in bundle.entrants if is_model(agent)]
        unknown = set(sources) - {agent.agent_id for agent in models}
        if unknown:
            raise ConfigError(f"--model {min(unknown)}=...: the bundle has no such model.")
        self._models: dict[str, LoadedModel] = {}
        self._contents = {agent.agent_id: agent.contents for agent in bundle.agents}
        for agent in models:
            given = sources.get(agent.agent_id)
            built = (
                _built(bundle, agent, _given(agent.agent_id, given))
                if given
                else _from_bundle(bundle, agent)
            )
            # a base may lie in a folder of another name; its weights are hashed beside its name
            declared = {k: v for k, v in agent.spec.items() if k != "base"}
            loaded = next(v for v in built.versions if v.agent_id == agent.agent_id)
            found = {k: v for k, v in loaded.spec.items() if k != "base"}
            if wrong := disagreement(declared, found, f"agent {agent.agent_id}"):
                raise BundleError(f"manifest.json: {wrong} in {given or 'the weights declared'}.")
            self._models[agent.agent_id] = built.models[agent.agent_id]
        self._waiting: list[_Turn] = []
        self.turns = self.tokens = 0
        """Replies and tokens scored so far."""

    def add(
        self, place: int, record: MatchRecord, observations: Mapping[int, Sequence[str]]
    ) -> tuple[int, str] | None:
        """Check the replies of one match, now or with later ones.

        Returns:
            (place, what is wrong) of the first false record among those scored, if any.
        """
        for seat, turns in record.tokens.items():
            steps = record.transcript.steps
            replies = [step.replies[seat] for step in steps if seat in step.replies]
            for number, (turn, text, reply) in enumerate(
                zip(turns, observations[seat], replies, strict=True)
            ):
                self._waiting.append(
                    _Turn(
                        (place, seat, number),
                        record.spec.seats[seat],
                        text,
                        reply,
                        turn.token_ids,
                        turn.logprobs,
                        sampling_key(ROOT_SEED, record.spec, seat, number, self._contents),
                    )
                )
        if sum(len(turn.token_ids) for turn in self._waiting) < _BATCH_TOKENS:
            return None
        return self.finish()

    def finish(self) -> tuple[int, str] | None:
        """Check the waiting replies; returns faults as `add` does."""
        turns, self._waiting = self._waiting, []
        faults: dict[TurnPlace, str] = {}
        for agent, model in self._models.items():
            mine = [turn for turn in turns if turn.agent == agent]
            faults |= _faults(model, mine)
            self.turns += len(mine)
            self.tokens += sum(len(turn.token_ids) for turn in mine)
        if not faults:
            return None
        first = min(faults)
        return first[0], f"seat {first[1]}, turn {first[2]}: {faults[first]}"


def _built(bundle: Bundle, agent: AgentVersion, name: ModelName) -> Built:
    """The agent as it plays, behind the prompt that it declares."""
    limit = agent.spec["sampling"]["max_new_tokens"]
    entrant = Entrant(agent.agent_id, Candidate(name, shown_to(agent.spec)))
    return build_agents(bundle.protocol, [entrant], limit)


def _given(agent: str, text: str) -> ModelName:
    """The model that the command names for an agent.

    Raises:
        ConfigError: it does not name a model.
    """
    name = parse(text)
    if not isinstance(name, ModelName):
        raise ConfigError(f"--model {agent}={text}: give MODEL or MODEL+ADAPTER.")
    return name


def _from_bundle(bundle: Bundle, agent: AgentVersion) -> Built:
    """The agent from the base that its contents name and the adapter that the bundle holds.

    Raises:
        BundleError: the bundle's adapter is none, or not of the declared shape.
        ConfigError: the bundle does not say where its weights are; only its maker can.
        ModelError: the base cannot be fetched.
    """
    name, base = agent.agent_id, base_source(agent.spec)
    if base is None:
        plus = "" if agent.spec["adapter"] is None else "+FOLDER"
        raise ConfigError(
            f"the base of {name!r}, {agent.spec['base']}, is a folder on another machine: give it with "
            f"--model '{name}=FOLDER{plus}'."
        )
    if agent.spec["adapter"] is None:
        return _built(bundle, agent, ModelName(base))
    folder = adapter_folder(bundle.folder, name)
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ConfigError(
            f"the adapter of {name!r} is not in the bundle: give it with "
            f"--model '{name}={base}+FOLDER'."
        )
    resolve(base)
    try:
        if (shape := adapter_shape(folder)) != tuple(agent.spec["lora"]):
            raise BundleError(
                f"agent {name}: its adapter has the shape {shape}, not the declared one."
            )
        return _built(bundle, agent, ModelName(base, str(folder)))
    except (ModelError, UnknownPolicyError, TypeError, OverflowError, RecursionError) as error:
        raise BundleError(
            f"agent {name}: its adapter cannot be loaded: {type(error).__name__}: {error}"
        ) from None


def _faults(model: LoadedModel, turns: Sequence[_Turn]) -> dict[TurnPlace, str]:
    """What is wrong with each reply of one agent; nothing for those that are right."""
    from srl_agents.engines.embedded.rescoring import Rescorer, SampledReply  # noqa: PLC0415 - torch comes with it

    base, scorer = model.engine.base, Rescorer(model.engine)
    found: dict[TurnPlace, str] = {}
    scored: list[_Turn] = []
    replies: list[SampledReply] = []
    for turn in turns:
        prompt = base.encode_prompt(turn.observation, model.examples)
        if not scorer.fits(prompt):
            if turn.reply or turn.token_ids:
                found[turn.place] = "the prompt left no room for a reply, and there is one"
            continue
        if wrong := _form(base, scorer.fault(turn.token_ids), turn):
            found[turn.place] = wrong
            continue
        scored.append(turn)
        replies.append(
            SampledReply(
                prompt_ids=prompt,
                token_ids=turn.token_ids,
                adapter=model.version,
                key=turn.key,
            )
        )
    for turn, scores in zip(scored, scorer.score(replies), strict=True):
        if wrong := _judge(turn, scores):
            found[turn.place] = wrong
    return found


def _form(base: BaseModel, fault: str, turn: _Turn) -> str:
    """What can be said without a forward pass."""
    if fault:
        return fault
    text = base.decode(turn.token_ids)
    if text != turn.reply:
        return f"the tokens spell {text[:60]!r}, the reply is {turn.reply[:60]!r}"
    return ""


def _judge(turn: _Turn, scores: TokenScores) -> str:
    for place, (claimed, true, miss) in enumerate(
        zip(turn.logprobs, scores.logprobs, scores.misses, strict=True)
    ):
        if not abs(claimed - true) <= LOGPROB_TOLERANCE:
            return (
                f"token {place} is claimed with log-probability {claimed:.4f}; the declared weights give "
                f"{true:.4f}"
            )
        if not miss <= CDF_TOLERANCE:
            return (
                f"token {place} is not the one that its random number selects (off by {miss:.4f} of "
                "probability): the reply was chosen, not drawn"
            )
    return ""
