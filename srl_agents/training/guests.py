"""Agents that are no part of a league, and whom its learners meet: models, adapters, endpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from srl_agents.agents.grammar import EndpointName
from srl_agents.agents.resolver import Asking, Candidate, EngineKey, Playing, Seated, find, seat
from srl_agents.engines.reply_journal import ReplyJournal
from srl_agents.engines.transformers_engine import TransformersEngine
from srl_agents.league.agents import AgentVersion
from srl_agents.league.store import LeagueStore
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.bases import PlayingBase
from srl_agents.training.single_parts import sampling_of
from srl_envs.errors import ConfigError


def seat_served(
    recipe: LeagueRecipe, names: Collection[str], journal: Path, opened: ExitStack
) -> dict[str, Seated]:
    """Guests behind endpoints, each of which has answered; ask before anything slow.

    What they answer is kept before it is used, so a run that is killed and goes on asks, and pays, for
    nothing twice.

    Args:
        recipe: of the run.
        names: of all guests of this process.
        journal: file that replies are kept in, of this process alone; made where there are such guests.
        opened: closes it, behind the engines.

    Raises:
        ModelError: an endpoint does not answer.
        StoreError: the journal cannot be read or written.
    """
    candidates = _candidates(recipe, names)
    served = {k: c for k, c in candidates.items() if isinstance(c.name, EndpointName)}
    if not served:
        return {}
    journal.parent.mkdir(parents=True, exist_ok=True)
    kept = ReplyJournal(journal)
    opened.callback(kept.close)
    return seat(served, _playing(recipe, Asking(journal=kept)))


def seat_loaded(
    recipe: LeagueRecipe, names: Collection[str], bases: Sequence[PlayingBase]
) -> dict[str, Seated]:
    """Guests whose weights are loaded here; those of a base of the run share its embedded engine.

    Args:
        recipe: of the run.
        names: of all guests of this process.
        bases: of this process.

    Raises:
        ConfigError: one is not what ``opponents.pinned`` says.
        ModelError: a model or an adapter cannot be loaded.
    """
    candidates = _candidates(recipe, names)
    loaded = {k: c for k, c in candidates.items() if not isinstance(c.name, EndpointName)}
    own: dict[EngineKey, TransformersEngine] = {}
    for base in bases:
        had, engine = base.settings, base.engine
        alike = had.parameters == "lora" and had.lora.target_modules == "all-linear"
        alike = alike and not had.lora.exclude_modules and not had.prompt.examples
        if alike and isinstance(engine, TransformersEngine):
            shape = (had.lora.rank, float(had.lora.alpha))
            head, acts = had.prompt.head(), had.lora.activation
            own.setdefault(EngineKey(had.model, shape, head, acts), engine)
    seated = seat(loaded, _playing(recipe, Asking()), own)
    for name in seated.keys() & recipe.opponents.pinned.keys():
        wanted = asdict(recipe.opponents.pinned[name])
        lora = None if wanted["adapter"] is None else seated[name].shape
        found = {**seated[name].contents, "lora": lora}
        other = [part for part, value in wanted.items() if found[part] != value]
        if other:
            raise ConfigError(
                f"opponents.pinned: {name!r} has another {' and '.join(other)} than the recipe pins. Give "
                "the weights and the prompt that were published, or take it out of `pinned`."
            )
    return seated


def tell_store(store: LeagueStore, guests: Mapping[str, Seated]) -> None:
    """Make guests known under their ids, which stand for one contents for ever.

    Raises:
        StoreError: an id stands for something else already, for example because the server behind an
            endpoint changed its model.
    """
    for name, guest in guests.items():
        store.add_agent(
            AgentVersion(agent_id=name, lineage=name, role="frozen", spec=guest.contents)
        )


def _candidates(recipe: LeagueRecipe, names: Collection[str]) -> dict[str, Candidate]:
    return {name: find(name, recipe.games[0].env_id) for name in names}


def _playing(recipe: LeagueRecipe, asking: Asking) -> Playing:
    return Playing(
        env_id=recipe.games[0].env_id,
        sampling=sampling_of(recipe),
        asking=asking,
        dtype=recipe.dtype,
        device=recipe.device,
    )
