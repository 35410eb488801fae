"""A recipe's rewards in runs whose games have their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from srl_agents.credit.by_game import Metrics, mean_metrics
from srl_agents.records import Episode, MatchSpec
from srl_agents.rewards.weighing import RecipeRewards


class RewardsByGame:
    """Lets the rewards of its game value every episode; a game without any pays as it is.

    Args:
        rewards: by game that has any.
        game_of: which game a match is of.
    """

    def __init__(
        self, rewards: Mapping[str, RecipeRewards], game_of: Callable[[MatchSpec], str]
    ) -> None:
        self._rewards, self._game_of = dict(rewards), game_of

    def judged(
        self, episodes: Sequence[Episode], policies: Collection[str]
    ) -> tuple[list[Episode], dict[str, Metrics]]:
        """See `RecipeRewards.judged`; metrics are means over the games' episodes."""
        places: dict[str, list[int]] = defaultdict(list)
        for number, episode in enumerate(episodes):
            places[self._game_of(episode.spec)].append(number)
        judged = list(episodes)
        weighted: dict[str, list[tuple[int, Metrics]]] = defaultdict(list)
        for game, own in places.items():
            rewards = self._rewards.get(game)
            if rewards is None:
                continue
            values, metrics = rewards.judged([episodes[k] for k in own], policies)
            for place, episode in zip(own, values, strict=True):
                judged[place] = episode
            for policy, found in metrics.items():
                weighted[policy].append((len(own), found))
        return judged, {policy: mean_metrics(own) for policy, own in weighted.items()}
