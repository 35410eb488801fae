"""Episodes to (turn, advantage) rows of one learner, by a recipe's credit settings.

Axes: ``E`` one entry per episode and seat that the policy held, ``N`` seats, ``K`` the seat's own
turns, or 1 where an episode counts as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.critic import PaidTurn
from srl_agents.credit.estimators import ESTIMATORS, Earned, cells, turn_numbers
from srl_agents.credit.forks import Forest, root_specs
from srl_agents.credit.group_relative import normalised
from srl_agents.credit.returns import rewards_to_go
from srl_agents.credit.settings import ADAPTATION_RATE, CreditSettings
from srl_agents.credit.shaping import shaping_rewards
from srl_agents.credit.teams.adaptive import AdaptiveWeights, payoff_shares
from srl_agents.credit.teams.mixture import rival_matrix, standing, team_bonus, team_matrix
from srl_agents.credit.teams.shares import Replayed, difference_shares, shapley_seat_shares
from srl_agents.records import Episode, Trajectory, Turn, canonical_json
from srl_envs.errors import ConfigError
from srl_envs.reading.potentials import find_potential

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


AnswerLogprobs = Callable[[Sequence[Trajectory]], Sequence[Sequence[float]]]
"""Per trajectory and turn the log-probability, nats, under the policy that played it, of the right answer in
place of the turn's reply; NaN where the move answers no question (`Turn.references`)."""


@dataclass(frozen=True, slots=True, eq=False)
class _Played:
    """Turns and rewards of one policy in seats that learn."""

    seats: list[tuple[Episode, Trajectory]]
    group_E: Ints
    seat_E: Ints
    valid_E: Flags
    whole_E: Flags
    """True for matches from their start: branches say nothing of how well a policy plays."""
    forest: Forest | None

    @classmethod
    def of(cls, episodes: Sequence[Episode], policy: str) -> _Played:
        seats = [
            (episode, episode.trajectories[seat])
            for episode in episodes
            for seat in episode.spec.learner_seats
            if episode.spec.seats[seat] == policy
        ]
        branched = any(e.spec.branch for e, _ in seats)
        roots = root_specs(episodes, seats) if branched else [e.spec for e, _ in seats]
        names = [(spec.schedule, spec.number) for spec in roots]
        number = {name: i for i, name in enumerate(dict.fromkeys(names))}
        return cls(
            seats,
            np.array([number[name] for name in names], dtype=np.int64),
            np.array([t.seat for _, t in seats], dtype=np.int64),
            np.array([e.valid for e, _ in seats], dtype=bool),
            np.array([e.spec.branch is None for e, _ in seats], dtype=bool),
            Forest.of(episodes, seats) if branched else None,
        )


class CreditAssigner:
    """Turns episodes into rows; holds the running means and weights that credit remembers.

    Args:
        settings: mode, weights and estimator.
        scale: divide group-relative advantages by their group's deviation.
        teams: team of each seat; empty: the whole table is one team of which each is the other's rival.
        replayed: plays episodes again with idle seats; team shares other than the mean need it.
        answer_logprobs: asks the policy how likely the right answer was; ``information_gain`` needs it.

    Raises:
        ConfigError: it is needed and absent.
    """

    def __init__(
        self,
        settings: CreditSettings,
        *,
        scale: bool = False,
        teams: Sequence[int] = (),
        replayed: Replayed | None = None,
        answer_logprobs: AnswerLogprobs | None = None,
    ) -> None:
        if settings.team_share != "mean" and replayed is None:
            raise ConfigError(f"team_share={settings.team_share!r} needs episodes played again.")
        kind = ESTIMATORS.find(settings.estimator)
        if kind.needs_answers and answer_logprobs is None:
            raise ConfigError(
                f"credit: estimator={settings.estimator!r} reads how likely the right answer was at every "
                "turn. Pass answer_logprobs."
            )
        self._answer_logprobs = answer_logprobs if kind.needs_answers else None
        self.settings = settings
        self.scale = scale
        self.teams = tuple(teams)
        self._replayed = replayed
        self._potential = find_potential(settings.potential) if settings.potential else None
        self._estimator = kind(settings, scale=scale)
        self._adaptive: dict[str, AdaptiveWeights] = {}

    def assign(
        self, episodes: Sequence[Episode], learner: str, policy: str, *, keep_flat: bool = False
    ) -> tuple[list[tuple[Turn, float]], dict[str, float]]:
        """Advantages for all turns that ``policy`` wrote, and metrics of its play.

        A group is one start state with one set of policies; the role is the seat. A refused reply
        is never praised for a win that came in spite of it: where its advantage would be above 0
        the turn is left out. Turns of flat groups, in which all attempts earned the same, carry no
        signal for a group-relative estimator and are left out too, as are masked turns and those that
        a branch inherited. Running means and adaptive weights are read first and moved afterwards, only
        by valid episodes. An estimator that reads no forks gets no branches, and metrics of play are
        those of matches from their start.

        Args:
            episodes: of one update.
            learner: whose running means and weights apply.
            policy: the learner's version that played.
            keep_flat: keep turns of flat groups, with advantage 0: a teacher may judge them.

        Returns:
            (turn, advantage) rows, and metrics by name; none where no valid episode was played.
        """
        if not self._estimator.reads_forks:
            episodes = [e for e in episodes if e.spec.branch is None]
        played = _Played.of(episodes, policy)
        if not played.valid_E.any():
            return [], {}
        worth_E, metrics = self._worth(played, learner)
        rewards_EK, valid_EK = self._rewards(played, worth_E)
        advantages_EK, flat_EK, more = self._advantages(played, rewards_EK, valid_EK, learner)
        if keep_flat:
            flat_EK &= ~valid_EK
        last = advantages_EK.shape[1] - 1
        rows = [
            (turn, float(advantages_EK[e, min(k, last)]))
            for e, (_, trajectory) in enumerate(played.seats)
            for k, turn in enumerate(trajectory.turns)
            if not flat_EK[e, min(k, last)]
            and self._teaches(turn)
            and (advantages_EK[e, min(k, last)] < 0 or not turn.invalid)
        ]
        metrics |= more
        return rows, metrics | {"rows": float(len(rows))}

    def paid_turns(
        self, episodes: Sequence[Episode], learner: str, policy: str
    ) -> tuple[list[PaidTurn], dict[str, float]]:
        """What each turn that ``policy`` wrote was paid, for a critic to judge, and metrics.

        Invalid episodes and branches are left out. What came with a turn that is masked, or has no
        tokens because its prompt did not fit the model, is paid with the seat's turn before it.

        Args:
            episodes: of one update.
            learner: whose weights apply.
            policy: the learner's version that played.
        """
        played = _Played.of([e for e in episodes if e.spec.branch is None], policy)
        if not played.valid_E.any():
            return [], {}
        worth_E, metrics = self._worth(played, learner)
        rewards_EK, valid_EK = self._turn_rewards(played, worth_E)
        paid: list[PaidTurn] = []
        for e, (_, trajectory) in enumerate(played.seats):
            own: list[PaidTurn] = []
            for k, turn in enumerate(trajectory.turns):
                if not valid_EK[e, k]:
                    continue
                reward = float(rewards_EK[e, k])
                if self._teaches(turn):
                    own.append(PaidTurn(turn, reward, e))
                elif own:
                    own[-1] = replace(own[-1], reward=own[-1].reward + reward)
            paid += own
        return paid, metrics | {"rows": float(len(paid))}

    def state(self) -> dict[str, Any]:
        """State that later updates depend on, as JSON values."""
        return {
            "estimator": self._estimator.state(),
            "adaptive": {name: weights.state() for name, weights in self._adaptive.items()},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._estimator.load_state(state["estimator"])
        for name, weights in state["adaptive"].items():
            self._weights_of(name).load_state(weights)

    def _teaches(self, turn: Turn) -> bool:
        """Whether anything is learned from a turn."""
        return not (turn.masked or turn.inherited) and any(
            turn.learned(thoughts=self.settings.train_thoughts)
        )

    # --- what is climbed ---------------------------------------------------------------------

    def _weights(self, learner: str) -> tuple[float, float]:
        """(beta, gamma)."""
        settings = self.settings
        if settings.mode == "adaptive":
            own = self._weights_of(learner)
            return own.beta, own.gamma
        shares = settings.mode in ("cooperative", "mixed")
        rivals = settings.mode in ("competitive", "mixed")
        return settings.cooperation * shares, settings.competition * rivals

    def _weights_of(self, learner: str) -> AdaptiveWeights:
        settings = self.settings
        return self._adaptive.setdefault(
            learner,
            AdaptiveWeights(settings.cooperation, settings.competition, ADAPTATION_RATE),
        )

    def _worth(self, played: _Played, learner: str) -> tuple[Floats, dict[str, float]]:
        """(E,) L + beta * C + gamma * P of each episode, and metrics."""
        own_E = np.array([t.total_reward for _, t in played.seats])
        measured_E = played.valid_E & played.whole_E
        metrics = _play_metrics([played.seats[e] for e in np.flatnonzero(measured_E)])
        if self.settings.mode == "individual":
            return own_E, metrics
        outcomes_EN = np.array([[t.outcome for t in e.trajectories] for e, _ in played.seats])
        outcomes_EN = np.where(played.valid_E[:, None], outcomes_EN, 0.0)
        together_NN = team_matrix(self.teams, outcomes_EN.shape[1])
        rivals_NN = rival_matrix(together_NN)
        here = (np.arange(len(own_E)), played.seat_E)
        outcome_E = outcomes_EN[here]
        mean_E = outcome_E + team_bonus(outcomes_EN, together_NN)[here]
        team_E = self._team_shares(played, together_NN, mean_E) - outcome_E
        standing_E = standing(outcomes_EN, rivals_NN, form=self.settings.standing)[here]
        beta, gamma = self._weights(learner)
        metrics |= {
            "beta": beta,
            "gamma": gamma,
            "own_term": _mean(own_E[measured_E]),
            "team_term": _mean(team_E[measured_E]),
            "rival_term": _mean(standing_E[measured_E]),
        }
        if self.settings.mode == "adaptive":
            margin_E = standing(outcomes_EN, rivals_NN, form="margin")[here]
            met_N = rivals_NN.sum(axis=1) > 0
            rivals_E = np.where(met_N[played.seat_E], outcome_E - margin_E, np.nan)
            shares = payoff_shares(
                outcome_E[measured_E],
                mean_E[measured_E],
                rivals_E[measured_E],
                cells(played.group_E, played.seat_E)[measured_E],
            )
            self._weights_of(learner).observe(shares)
        return own_E + beta * team_E + gamma * standing_E, metrics

    def _team_shares(self, played: _Played, together_NN: Flags, mean_E: Floats) -> Floats:
        """(E,) what each seat has of its team; ``mean_E`` is its mean outcome."""
        kind, replayed = self.settings.team_share, self._replayed
        if kind == "mean" or replayed is None:
            return mean_E
        share = difference_shares if kind == "difference" else shapley_seat_shares
        known: dict[tuple[int, int], float] = {}
        shares_E = np.zeros(len(played.seats))
        for e, (episode, trajectory) in enumerate(played.seats):
            if not episode.valid:
                continue
            if (id(episode), trajectory.seat) not in known:
                mates = [int(seat) for seat in np.flatnonzero(together_NN[trajectory.seat])]
                shares = share(episode, mates, replayed)
                known |= {(id(episode), seat): value for seat, value in shares.items()}
            shares_E[e] = known[id(episode), trajectory.seat]
        return shares_E

    def _rewards(self, played: _Played, worth_E: Floats) -> tuple[Floats, Flags]:
        """(E, K) what each turn was paid, and which turns count.

        The terms of the whole episode, and what the game paid a seat before its first turn, come
        with its last turn, so that a row's sum is the episode's worth (less the potential of its
        first turn, if there is one).
        """
        if self.settings.level == "episode":
            return worth_E[:, None], played.valid_E[:, None]
        return self._turn_rewards(played, worth_E)

    def _turn_rewards(self, played: _Played, worth_E: Floats) -> tuple[Floats, Flags]:
        """Rewards as in `_rewards`, turn by turn."""
        turns = [t.turns for _, t in played.seats]
        rewards_EK = np.zeros((len(turns), max(1, *map(len, turns))))
        valid_EK = np.zeros(rewards_EK.shape, dtype=bool)
        for e, own in enumerate(turns):
            if own and played.valid_E[e]:
                rewards_EK[e, : len(own)] = [turn.reward for turn in own]
                rewards_EK[e, len(own) - 1] += worth_E[e] - rewards_EK[e].sum()
                valid_EK[e, : len(own)] = True
        return rewards_EK + self._shaping(played, valid_EK), valid_EK

    def _shaping(self, played: _Played, valid_EK: Flags) -> Floats:
        """(E, K) what the turns are paid for changes of the potential."""
        potentials_EK = np.zeros(valid_EK.shape)
        if self._potential is None:
            return potentials_EK
        for e, (_, trajectory) in enumerate(played.seats):
            for k, turn in enumerate(trajectory.turns):
                potentials_EK[e, k] = self._potential(turn.observation, trajectory.seat)
        wrong = potentials_EK[~np.isfinite(potentials_EK)]
        if len(wrong):
            raise ConfigError(
                f"potential={self.settings.potential!r} gave {wrong[0]}; use finite numbers."
            )
        return shaping_rewards(potentials_EK, valid_EK, discount=self.settings.discount)

    def _returns(self, rewards_EK: Floats, valid_EK: Flags) -> Floats:
        """(E, K) what was paid from each turn on; an episode that counts as a whole is paid once."""
        if self.settings.level == "episode":
            return rewards_EK
        return rewards_to_go(rewards_EK, valid_EK, discount=self.settings.discount)

    # --- against what ------------------------------------------------------------------------

    def _advantages(
        self, played: _Played, rewards_EK: Floats, valid_EK: Flags, learner: str
    ) -> tuple[Floats, Flags, dict[str, float]]:
        """(E, K) advantages, (E, K) what carries no signal, and metrics."""
        settings = self.settings
        rewards_EK = np.where(valid_EK, rewards_EK, 0.0)  # a failed rollout may hold nan
        advantages_EK, flat_EK, metrics = self._estimator.advantages(
            Earned(
                rewards_EK=rewards_EK,
                returns_EK=self._returns(rewards_EK, valid_EK),
                valid_EK=valid_EK,
                group_E=played.group_E,
                seat_E=played.seat_E,
                roles_E=tuple((e.spec.env_id, t.seat, learner) for e, t in played.seats),
                forest=played.forest,
                answers_EK=self._answers(played, valid_EK),
                questions_EK=self._questions(played, valid_EK),
            )
        )
        if played.forest is not None:
            flat_EK = flat_EK | ~played.forest.sampled_EK
        if settings.normalise != "none":
            number_EK = turn_numbers(valid_EK)
            key_EK = number_EK if settings.normalise == "turn" else np.zeros_like(number_EK)
            advantages_EK = normalised(
                advantages_EK.ravel(), key_EK.ravel(), (valid_EK & ~flat_EK).ravel()
            ).reshape(valid_EK.shape)
        return advantages_EK, flat_EK, metrics

    def _answers(self, played: _Played, valid_EK: Flags) -> Floats | None:
        """(E, K) log-probability of the right answer at each turn; None where the estimator reads none."""
        if self._answer_logprobs is None:
            return None
        answers_EK = np.full(valid_EK.shape, np.nan)
        asked = np.flatnonzero(played.valid_E)
        found = self._answer_logprobs([played.seats[e][1] for e in asked])
        for e, logprobs in zip(asked, found, strict=True):
            turns = len(played.seats[e][1].turns)
            if len(logprobs) != turns:
                raise ConfigError(
                    f"answer_logprobs gave {len(logprobs)} numbers for a seat of {turns} turns; one per turn."
                )
            answers_EK[e, :turns] = logprobs
        return answers_EK

    def _questions(self, played: _Played, valid_EK: Flags) -> Ints | None:
        """(E, K) which question each turn's answer is of, where the estimator reads answers."""
        if self._answer_logprobs is None:
            return None
        questions_EK = np.zeros(valid_EK.shape, dtype=np.int64)
        for e in np.flatnonzero(played.valid_E):
            own = [canonical_json(turn.references) for turn in played.seats[e][1].turns]
            number = {question: n for n, question in enumerate(dict.fromkeys(own))}
            questions_EK[e, : len(own)] = [number[question] for question in own]
        return questions_EK


def _play_metrics(played: Sequence[tuple[Episode, Trajectory]]) -> dict[str, float]:
    turns = [turn for _, trajectory in played for turn in trajectory.turns]
    return {
        "reward": _mean([t.total_reward for _, t in played]),
        "outcome": _mean([t.outcome for _, t in played]),
        "format": _mean([t.components["format"] for _, t in played]),
        "invalid_share": _mean([turn.invalid is not None for turn in turns]),
        "reply_tokens": _mean([len(turn.completion_ids) - turn.thought_tokens for turn in turns]),
        **_thought_metrics(turns),
        "unread_share": _mean([not turn.completion_ids for turn in turns]),
    }


def _thought_metrics(turns: Sequence[Turn]) -> dict[str, float]:
    """Lengths of thoughts; empty where no turn has thoughts."""
    if not any(turn.thought_tokens for turn in turns):
        return {}
    return {
        "thought_tokens": _mean([turn.thought_tokens for turn in turns]),
        "cut_thoughts": _mean([turn.forced_tokens > 0 for turn in turns]),
    }


def _mean(values: Sequence[float] | NDArray[Any]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
