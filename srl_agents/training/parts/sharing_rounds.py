"""Rounds of sharing: what goes up on the board, and what each reader makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srl_agents.credit.preferences import (
    PairSettings,
    Preference,
    PreferenceBatch,
    paid_pairs,
)
from srl_agents.models.base_model import BaseModel
from srl_agents.models.prompt import Example
from srl_agents.recipes.sections.sharing import MOST_TOKENS, TURNS, WINDOW, SharingSettings
from srl_agents.records import Episode
from srl_agents.sharing.board import Board, Notice
from srl_agents.sharing.demonstrations import Demonstration, DemonstrationBatch
from srl_agents.sharing.learner_transcripts import Transcript, examples_of, transcripts_of
from srl_agents.trainers.dpo import DPOLearner
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.trainers.supervised.sft import SFTLearner
from srl_envs.errors import ConfigError

Metrics = dict[str, dict[str, float]]
_GROUP = "sharing"
"""Ends the names of this part's groups of a checkpoint's tensors."""


class Sharing:
    """Shows learners each other's best; a reader's change is a new version of it.

    Make it after the learners: its own optimizers hold their adapters.

    Args:
        settings: of the recipe.
        learners: by name.
        seeds: learner -> seed, as its adapter's.
        max_new_tokens: room that a reply needs behind a prompt.

    Raises:
        ConfigError: demonstrations and a reply would fill the model's context.
    """

    def __init__(
        self,
        settings: SharingSettings,
        learners: Mapping[str, AdapterLearner[Any]],
        seeds: Mapping[str, int],
        max_new_tokens: int,
    ) -> None:
        self.settings, self.learners = settings, learners
        self.shown: dict[str, tuple[Example, ...]] = dict.fromkeys(learners, ())
        """Learner -> examples that stand in its prompts."""
        kind: type[Any] = Preference if settings.kind == "dpo" else Transcript
        self.board: Board[Any] = Board(kind, keep=settings.top, window=WINDOW)
        self._readers: dict[str, AdapterLearner[Any]] = {}
        added = MOST_TOKENS if settings.kind == "demonstrations" else 0
        for base in {id(one.base): one.base for one in learners.values()}.values():
            if added + max_new_tokens < base.context_length:
                continue
            raise ConfigError(
                f"sharing: {added} tokens of examples and a reply of {max_new_tokens} tokens fill "
                f"{base.name}'s context of {base.context_length} tokens. Lower rollout.max_new_tokens."
            )
        for name, learner in learners.items():
            base = learner.base
            if settings.kind == "sft":
                self._readers[name] = SFTLearner(name, base, settings.sft, seeds[name])
            elif settings.kind == "dpo":
                self._readers[name] = DPOLearner(name, base, settings.dpo, 1.0, seeds[name])

    def after_update(
        self, update: int, episodes: Sequence[Episode], live: Mapping[str, str]
    ) -> Metrics:
        """Put up what was played, and hold a round if one is due.

        Args:
            update: number of the update whose steps are taken.
            episodes: that it was played with.
            live: policy version id that played -> learner.

        Returns:
            In a round, by learner: ``shared`` (episodes or pairs shown), ``shared_from:NAME`` (of
            them, by author), ``shared_worth`` (their mean) and, where steps are taken,
            ``shared_loss`` of the last.
        """
        self.board.offer(update, self._notices(episodes, live))
        if update % self.settings.every:
            return {}
        return {name: self._read(name) for name in self.learners}

    def state(self) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """What later updates depend on: named groups of tensors, and JSON values."""
        tensors, readers = {}, {}
        for name, reader in self._readers.items():
            tensors[f"{name}.{_GROUP}"], readers[name] = reader.state()
        shown = {name: [list(example) for example in own] for name, own in self.shown.items()}
        return tensors, {"board": self.board.state(), "shown": shown, "readers": readers}

    def load_state(self, tensors: Mapping[str, dict[str, Any]], state: Mapping[str, Any]) -> None:
        """The inverse of `state`; ``tensors`` may hold other groups."""
        self.board.load_state(state["board"])
        for name, examples in state["shown"].items():
            self.shown[name] = tuple((shown, reply) for shown, reply in examples)
        for name, reader in self._readers.items():
            reader.load_state(tensors[f"{name}.{_GROUP}"], state["readers"][name])

    # --- what goes up ------------------------------------------------------------------------

    def _notices(
        self, episodes: Sequence[Episode], live: Mapping[str, str]
    ) -> Sequence[Notice[Any]]:
        if self.settings.kind == "dpo":
            return pairs_of(episodes, live, self.settings.dpo.pairs)
        return transcripts_of(episodes, live)

    # --- what is made of it ------------------------------------------------------------------

    def _read(self, name: str) -> dict[str, float]:
        """Let one learner read the others' best."""
        notices = self.board.best_for(name, self.settings.top)
        metrics = {"shared": float(len(notices))}
        if not notices:
            return metrics
        for notice in notices:
            key = f"shared_from:{notice.learner}"
            metrics[key] = metrics.get(key, 0.0) + 1
        metrics["shared_worth"] = sum(notice.worth for notice in notices) / len(notices)
        if self.settings.kind == "demonstrations":
            self._show(name, notices)
            return metrics
        return metrics | {"shared_loss": self._learn(name, notices)}

    def _show(self, name: str, notices: Sequence[Notice[Transcript]]) -> None:
        """Put the best examples that fit into the learner's prompts."""
        fitting: list[Example] = []
        base = self.learners[name].base
        bare = len(base.encode_prompt(""))
        for example in reversed(examples_of(notices, TURNS)):  # best first
            longer = [example, *fitting]
            if len(base.encode_prompt("", tuple(longer))) - bare > MOST_TOKENS:
                break
            fitting = longer
        if tuple(fitting) != self.shown[name]:
            self.shown[name] = tuple(fitting)
            self.learners[name].version += 1

    def _learn(self, name: str, notices: Sequence[Notice[Any]]) -> float:
        """Take steps on the best; the loss of the last."""
        reader, learner = self._readers[name], self.learners[name]
        batch: DemonstrationBatch | PreferenceBatch
        if self.settings.kind == "sft":
            rows = [row for notice in notices for row in self._rows(learner.base, notice)]
            batch = DemonstrationBatch(learner=name, demonstrations=tuple(rows))
        else:
            pairs = tuple(notice.item for notice in notices)
            batch = PreferenceBatch(learner=name, pairs=pairs)
        loss = 0.0
        for _ in range(self.settings.steps):
            loss = reader.update(batch)["loss"]
            learner.version += 1
        return loss

    def _rows(self, reader: BaseModel, notice: Notice[Transcript]) -> list[Demonstration]:
        """What a learner imitates: the tokens that were sampled, or of another base their texts."""
        if self.learners[notice.learner].base is reader:
            return notice.item.demonstrations(notice.policy)
        return [
            Demonstration(
                prompt_ids=reader.encode_prompt(turn.observation) + reader.chat.thoughts_end,
                reply_ids=reader.encode_reply(turn.reply),
                by=notice.policy,
            )
            for turn in notice.item.turns
        ]


def pairs_of(
    episodes: Sequence[Episode], live: Mapping[str, str], settings: PairSettings
) -> list[Notice[Preference]]:
    """Pairs that learners' attempts made, by total reward, each worth its margin.

    Args:
        episodes: of one update; those on evaluation seeds give nothing.
        live: policy version id -> learner, of the versions that learn.
        settings: which replies are paired.
    """
    return [
        Notice(learner=live[author], policy=author, worth=pair.margin, item=pair)
        for pair in paid_pairs(episodes, live, settings)
        for author in pair.chosen_by
    ]
