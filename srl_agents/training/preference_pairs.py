"""Episodes to pairs of replies: the experience that DPO learns from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srl_agents.coordination.coordinator import Coordinator
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.preferences import PreferenceBatch, preferences
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode
from srl_agents.trainers.dpo import DPOLearner


class PreferencePairs:
    """Pairs by credit and by outcome; see `srl_agents.credit.preferences`.

    Args:
        recipe: of the run.
        learners: all of them.
        credit: what attempts were worth.
        coordinator: has no say in pairs.
    """

    def __init__(
        self,
        recipe: LeagueRecipe,
        learners: Mapping[str, DPOLearner],
        credit: CreditAssigner,
        coordinator: Coordinator,
    ) -> None:
        self.learners, self.credit = learners, credit

    def batch(
        self, learner: str, episodes: Sequence[Episode], policy: str
    ) -> tuple[PreferenceBatch | None, dict[str, float]]:
        """See `Experience`; an update without pairs says ``pairs`` 0 and takes no step."""
        own = self.learners[learner]
        rows, values = self.credit.assign(episodes, learner, policy)
        pairs, counts = preferences(episodes, rows, policy, own.settings.pairs)
        values |= counts
        if not pairs:
            return None, values
        return PreferenceBatch(learner=learner, version=own.version, pairs=tuple(pairs)), values
