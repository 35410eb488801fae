"""Pairs of replies to one prompt, ordered by their results, for preference learning.

A pair needs no critic and no baseline: two replies to a prompt that is equal token for token, of
which one turned out better. Two sources: the attempts of one policy at one start state, ordered by
their credit (`rank_pairs`), and rivals at one start state, ordered by outcome (`outcome_pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from srl_agents.records import Episode, Extent, Turn, cut_evenly, digest
from srl_envs.errors import ConfigError, nearest
from srl_envs.reading.settings import Removed

Tokens = tuple[int, ...]
Source = Literal["rank", "outcome"]

PER_PROMPT = 4
"""Most pairs of one source that a prompt makes; no reply is in two of them."""
_TIE = 1e-9
"""Worths closer than this are equal, and equals make no pair."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairSettings:
    """Which replies are paired."""

    sources: tuple[Source, ...] = ("rank", "outcome")
    """``rank``: a policy's own attempts, by credit; ``outcome``: replies of rivals, by who won."""
    max_length_ratio: float | None = None
    """Most that the longer reply's tokens may be of the shorter's; None pairs any two. Judges like
    length, and DPO learns it (arXiv:2403.19159)."""

    removed: ClassVar[Removed] = {
        "per_prompt": (PER_PROMPT, "lower rollout.group_size"),
        "min_margin": (0.0, "set training.offset, which weighs pairs by their margin"),
    }

    def __post_init__(self) -> None:
        for source in self.sources:
            if source not in get_args(Source):
                raise ConfigError(
                    f"sources: {source!r} is unknown.{nearest(source, get_args(Source))} "
                    f"Use {', '.join(get_args(Source))}."
                )
        if not self.sources:
            raise ConfigError("sources: name at least one; without a source no pairs are made.")
        if self.max_length_ratio is not None and self.max_length_ratio < 1:
            raise ConfigError(
                f"max_length_ratio={self.max_length_ratio}: use 1 (equal lengths only) or more."
            )


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """Learning from pairs. Without slots, so that other settings may derive from it."""

    pairs: PairSettings = field(default_factory=PairSettings)
    """Which replies make a pair. Of a reward model attempts are compared by total reward: its source is
    always ``rank``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One reply: its prompt, its author, and its worth."""

    start: str
    """Start state: equal for matches of one environment, options and seed."""
    seat: int
    policy: str
    """Policy version id."""
    turn: Turn
    worth: float
    """Reward units; only compared within one group of answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preference:
    """Two replies to one prompt, of which the chosen one turned out better."""

    start: str
    """Start state that both were given at."""
    prompt_ids: Tokens
    chosen_ids: Tokens
    rejected_ids: Tokens
    chosen_by: tuple[str, ...]
    """Policy versions that wrote the chosen reply, sorted."""
    rejected_by: tuple[str, ...]
    margin: float
    """Worth of the chosen reply minus that of the rejected one, more than 0."""
    source: Source

    @property
    def length_difference(self) -> int:
        """Tokens of the chosen reply minus those of the rejected one."""
        return len(self.chosen_ids) - len(self.rejected_ids)


@dataclass(frozen=True, kw_only=True, slots=True)
class PreferenceBatch:
    """Pairs for one learner's update."""

    learner: str
    pairs: tuple[Preference, ...]
    whole: Extent | None = None
    """Extent of the batch that these pairs are a share of; None for a whole batch."""

    @property
    def rows(self) -> int:
        """Number of replies, two per pair."""
        return 2 * len(self.pairs)

    @property
    def extent(self) -> Extent:
        """Extent of the whole batch, over which the loss is a mean, also for a share."""
        tokens = sum(len(pair.chosen_ids) + len(pair.rejected_ids) for pair in self.pairs)
        return self.whole or Extent(rows=self.rows, tokens=tokens)

    def share(self, part: int, parts: int) -> PreferenceBatch | None:
        """See `TrainingBatch.share`; pairs stay whole."""
        lengths = [
            2 * len(p.prompt_ids) + len(p.chosen_ids) + len(p.rejected_ids) for p in self.pairs
        ]
        owners = cut_evenly(np.array(lengths), parts)
        own = tuple(p for p, owner in zip(self.pairs, owners, strict=True) if owner == part)
        return replace(self, pairs=own, whole=self.extent) if own else None


def rank_answers(episodes: Sequence[Episode], rows: Sequence[tuple[Turn, float]]) -> list[Answer]:
    """The turns that credit kept, each worth its advantage.

    Args:
        episodes: of training; others are passed over.
        rows: (turn, advantage) as `CreditAssigner.assign` made them from these episodes. Advantages
            differ from returns by a baseline, which attempts at one prompt share.
    """
    return _answers(episodes, {id(turn): advantage for turn, advantage in rows})


def outcome_answers(episodes: Sequence[Episode], policy: str) -> list[Answer]:
    """All replies of models in a policy's matches, each worth the outcome of its seat.

    Args:
        episodes: of training; others are passed over, and so are matches in which ``policy`` holds
            no seat that learns.
        policy: version id of the learner.
    """
    own = [e for e in episodes if policy in (e.spec.seats[s] for s in e.spec.learner_seats)]
    worth = {id(turn): t.outcome for e in own for t in e.trajectories for turn in t.turns}
    return _answers(own, worth)


def rank_pairs(answers: Sequence[Answer], settings: PairSettings) -> list[Preference]:
    """Attempts of one policy in one seat at one prompt: the best against the worst, and so on.

    Replies of equal tokens are one candidate, worth their mean, so that no two pairs contradict
    each other. The best candidate meets the worst, the second best the second worst. A reply that
    the game refused is never chosen; ties and replies too unequal in length make no pair.

    Returns:
        Pairs in the order in which their prompts first appear.
    """
    return _pairs(answers, settings, "rank", lambda a: (a.start, a.seat, a.policy))


def outcome_pairs(answers: Sequence[Answer], settings: PairSettings) -> list[Preference]:
    """As `rank_pairs`, but among all seats and policies at one prompt, by outcome.

    Pairs whose two replies have one and the same author in one seat are left to `rank_pairs`.
    """
    return _pairs(answers, settings, "outcome", lambda a: (a.start,))


def paid_pairs(
    episodes: Sequence[Episode], policies: Collection[str], settings: PairSettings
) -> list[Preference]:
    """`rank_pairs` of what several policies wrote, only by the total reward of the rules.

    Args:
        episodes: of training; others are passed over.
        policies: version ids whose seats count, where they learn.
        settings: which replies are paired.
    """
    rows = [
        (turn, episode.trajectories[seat].total_reward)
        for episode in episodes
        for seat in episode.spec.learner_seats
        if episode.trajectories[seat].policy in policies
        for turn in episode.trajectories[seat].turns
    ]
    return rank_pairs(rank_answers(episodes, rows), settings)


def preferences(
    episodes: Sequence[Episode],
    rows: Sequence[tuple[Turn, float]],
    policy: str,
    settings: PairSettings,
) -> tuple[list[Preference], dict[str, float]]:
    """All pairs of one learner's update, and metrics of them.

    Where both sources order the same two replies, credit decides, as it holds what replies cost.

    Args:
        episodes: of one update.
        rows: the learner's (turn, advantage) rows of them.
        policy: version id of the learner.
        settings: sources and limits.

    Returns:
        The pairs; ``pairs``, ``pairs_outcome`` and, if there are any, means over the pairs:
        ``pair_margin``, ``length_difference`` (tokens) and ``foreign_share`` (chosen replies that
        ``policy`` did not write).
    """
    ranked, outcomes = [], []
    if "rank" in settings.sources:
        ranked = rank_pairs(rank_answers(episodes, rows), settings)
    if "outcome" in settings.sources:
        known = {_unordered(pair) for pair in ranked}
        outcomes = [
            pair
            for pair in outcome_pairs(outcome_answers(episodes, policy), settings)
            if _unordered(pair) not in known
        ]
    pairs = ranked + outcomes
    return pairs, pair_metrics(pairs, policy) | {"pairs_outcome": float(len(outcomes))}


def pair_metrics(pairs: Sequence[Preference], policy: str) -> dict[str, float]:
    """``pairs`` and, if there are any, the statistics of `preferences`."""
    metrics = {"pairs": float(len(pairs))}
    if pairs:
        metrics |= {
            "pair_margin": float(np.mean([pair.margin for pair in pairs])),
            "length_difference": float(np.mean([pair.length_difference for pair in pairs])),
            "foreign_share": float(np.mean([policy not in pair.chosen_by for pair in pairs])),
        }
    return metrics


@dataclass(slots=True)
class _Candidate:
    """One reply to one prompt, however often it was given."""

    ids: Tokens
    answers: list[Answer] = field(default_factory=list)

    @property
    def worth(self) -> float:
        return float(np.mean([answer.worth for answer in self.answers]))

    @property
    def refused(self) -> bool:
        return any(answer.turn.invalid is not None for answer in self.answers)

    @property
    def authors(self) -> set[tuple[str, int]]:
        return {(answer.policy, answer.seat) for answer in self.answers}

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(sorted({answer.policy for answer in self.answers}))


def _answers(episodes: Sequence[Episode], worth: Mapping[int, float]) -> list[Answer]:
    """One answer per unmasked turn that a model wrote in a valid training episode, with a worth.

    ``worth`` is keyed by the turns' identity: two equal turns may be worth different things.
    """
    return [
        Answer(start=start, seat=t.seat, policy=t.policy, turn=turn, worth=worth[id(turn)])
        for episode in episodes
        if episode.valid and episode.spec.split == "train"
        for start in [digest([episode.spec.env_id, episode.spec.options, episode.spec.seed])]
        for t in episode.trajectories
        for turn in t.turns
        if turn.completion_ids and not turn.masked and id(turn) in worth
    ]


def _pairs(
    answers: Sequence[Answer],
    settings: PairSettings,
    source: Source,
    place: Callable[[Answer], tuple[Hashable, ...]],
) -> list[Preference]:
    prompts: dict[Hashable, dict[Tokens, _Candidate]] = {}
    for answer in answers:
        turn = answer.turn
        replies = prompts.setdefault((*place(answer), turn.prompt_ids), {})
        ids = turn.completion_ids
        replies.setdefault(ids, _Candidate(ids)).answers.append(answer)
    pairs = []
    for replies in prompts.values():
        matched = _matched(list(replies.values()), settings, source)
        pairs += matched[:PER_PROMPT]
    return pairs


def _matched(
    candidates: list[_Candidate], settings: PairSettings, source: Source
) -> list[Preference]:
    """Best with worst, second best with second worst, until they are level."""
    ordered = sorted(candidates, key=lambda c: -c.worth)  # stable: first given, first named
    pairs = []
    best = [candidate for candidate in ordered if not candidate.refused]
    for chosen, rejected in zip(best, reversed(ordered), strict=False):
        margin = chosen.worth - rejected.worth
        if margin <= _TIE:
            break
        if source == "outcome" and len(chosen.authors | rejected.authors) == 1:
            continue
        lengths = sorted((len(chosen.ids), len(rejected.ids)))
        if settings.max_length_ratio and lengths[1] > settings.max_length_ratio * lengths[0]:
            continue
        pairs.append(
            Preference(
                start=chosen.answers[0].start,
                prompt_ids=chosen.answers[0].turn.prompt_ids,
                chosen_ids=chosen.ids,
                rejected_ids=rejected.ids,
                chosen_by=chosen.policies,
                rejected_by=rejected.policies,
                margin=margin,
                source=source,
            )
        )
    return pairs


def _unordered(pair: Preference) -> tuple[str, Tokens, frozenset[Tokens]]:
    return pair.start, pair.prompt_ids, frozenset((pair.chosen_ids, pair.rejected_ids))
