"""Agents that are no part of a league, and whom its learners meet: models, adapters, endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from srl_agents.agents.grammar import EndpointName
from srl_agents.agents.resolver import Asking, Candidate, EngineKey, Playing, Seated, find, seat
from srl_agents.engines.reply_journal import REPLIES, ReplyJournal
from srl_agents.engines.transformers_engine import TransformersEngine
from srl_agents.league.agents import AgentVersion
from srl_agents.league.store import LeagueStore
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.bases import PlayingBase
from srl_agents.training.single_parts import sampling_of


def seat_served(
    recipe: LeagueRecipe, folder: Path, say: Callable[[str], None], opened: ExitStack
) -> dict[str, Seated]:
    """Guests behind endpoints, each of which has answered; ask before anything slow.

    What they answer is kept in the run's folder before it is used, so a run that is killed and goes on
    asks, and pays, for nothing twice.

    Args:
        recipe: of the run.
        folder: of the run; made where there are such guests.
        say: shows a line.
        opened: closes the journal of replies, behind the engines.

    Raises:
        ModelError: an endpoint does not answer.
        StoreError: the journal cannot be read or written.
    """
    served = {k: c for k, c in _candidates(recipe).items() if isinstance(c.name, EndpointName)}
    if set(served) & set(recipe.opponents.agents):
        say(
            "opponents behind endpoints draw random numbers of their own: this run cannot be repeated "
            "bit for bit."
        )
    if not served:
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    journal = ReplyJournal(folder / REPLIES)
    opened.callback(journal.close)
    return seat(served, _playing(recipe, Asking(journal=journal)))


def seat_loaded(recipe: LeagueRecipe, bases: Sequence[PlayingBase]) -> dict[str, Seated]:
    """Guests whose weights are loaded here; those of a base of the run share its embedded engine.

    Raises:
        ModelError: a model or an adapter cannot be loaded.
    """
    loaded = {k: c for k, c in _candidates(recipe).items() if not isinstance(c.name, EndpointName)}
    own: dict[EngineKey, TransformersEngine] = {}
    for base in bases:
        had, engine = base.settings, base.engine
        alike = had.parameters == "lora" and had.lora.target_modules == "all-linear"
        alike = alike and not had.lora.exclude_modules and not had.prompt.examples
        if alike and isinstance(engine, TransformersEngine):
            shape = (had.lora.rank, float(had.lora.alpha))
            head, acts = had.prompt.head(), had.lora.activation
            own.setdefault(EngineKey(had.model, shape, head, acts), engine)
    return seat(loaded, _playing(recipe, Asking()), own)


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


def _candidates(recipe: LeagueRecipe) -> dict[str, Candidate]:
    return {name: find(name, recipe.games[0].env_id) for name in recipe.guests}


def _playing(recipe: LeagueRecipe, asking: Asking) -> Playing:
    return Playing(
        env_id=recipe.games[0].env_id,
        sampling=sampling_of(recipe),
        asking=asking,
        dtype=recipe.dtype,
        device=recipe.device,
    )
