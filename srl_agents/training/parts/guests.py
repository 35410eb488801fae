"""Agents that do not belong to a league, and that its learners play with: models, adapters, endpoints."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from srl_agents.agents.contents import base_sha256, chat_contents
from srl_agents.agents.grammar import EndpointName, ModelName, parse
from srl_agents.agents.resolver import (
    Asking,
    Candidate,
    EngineKey,
    Playing,
    Seated,
    adapter_sha256,
    adapter_shape,
    find,
    seat,
)
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.endpoint.reply_journal import ReplyJournal
from srl_agents.engines.endpoint.sent_requests import SentRequests
from srl_agents.league.agents import AgentVersion
from srl_agents.league.store.history import LeagueStore
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.sources.catalog import local_folder
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.bases import PlayingBase
from srl_agents.training.parts.single import sampling_of
from srl_envs.errors import ConfigError


def seat_served(recipe: LeagueRecipe, names: Collection[str], asking: Asking) -> dict[str, Seated]:
    """Guests behind endpoints, each of which has answered; ask before anything slow.

    What they answer is kept before it is used, so a run that is killed and goes on asks, and pays, for
    nothing twice.

    Args:
        recipe: of the run.
        names: of all guests of this process.
        asking: how, with what `open_journal` opened.

    Raises:
        ModelError: an endpoint does not answer.
    """
    candidates = _candidates(recipe, names)
    served = {k: c for k, c in candidates.items() if isinstance(c.name, EndpointName)}
    return seat(served, _playing(recipe, asking))


def open_journal(
    names: Collection[str], journal: Path, opened: ExitStack, sent: Path | None = None
) -> Asking:
    """How guests behind endpoints are asked: what they answer is kept; nothing is, where there are none.

    Args:
        names: of all guests of this process.
        journal: file that replies are kept in, of this process only.
        opened: closes it, behind the engines.
        sent: file that requests are kept in; None for none.

    Raises:
        StoreError: a file cannot be read or written.
    """
    if not any(isinstance(parse(name), EndpointName) for name in names):
        return Asking()
    journal.parent.mkdir(parents=True, exist_ok=True)
    kept = ReplyJournal(journal)
    opened.callback(kept.close)
    if sent is None:
        return Asking(journal=kept)
    sent_requests = SentRequests(sent)
    opened.callback(sent_requests.close)
    return Asking(journal=kept, sent=sent_requests)


def desks(names: Collection[str]) -> list[str]:
    """Addresses of the pages at which people answer for some of the guests."""
    found = [name.desk for name in map(parse, names) if isinstance(name, EndpointName)]
    return [*dict.fromkeys(desk for desk in found if desk is not None)]


def seat_loaded(
    recipe: LeagueRecipe, names: Collection[str], bases: Sequence[PlayingBase]
) -> dict[str, Seated]:
    """Guests whose weights are loaded here; those of a base of the run share its embedded engine.

    Args:
        recipe: of the run.
        names: of all guests of this process.
        bases: of this process.

    Raises:
        ConfigError: one differs from ``opponents.pinned``.
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
    for name, one in seated.items():
        _require_pinned(recipe, name, {**one.contents, "lora": one.shape})
    return seated


def check_pinned_files(recipe: LeagueRecipe) -> None:
    """Compare what the files of pinned guests tell with what the recipe pins; no weights are loaded.

    Bases that must be fetched first are left to `seat_loaded`, and with them what their tokenizers write.

    Raises:
        ConfigError: one differs from ``opponents.pinned``.
        UnknownPolicyError: a folder holds no adapter, or its file cannot be read.
    """
    for text in recipe.opponents.pinned:
        name = parse(text)
        if not isinstance(name, ModelName):
            continue
        found: dict[str, Any] = {}
        if name.adapter:
            folder = Path(name.adapter).expanduser()
            found["lora"] = adapter_shape(folder)
            found["adapter"] = adapter_sha256(folder)
        _require_pinned(recipe, text, found)
        own = local_folder(name.model)
        if own is not None and (own / "config.json").is_file():
            prompt = find(text, recipe.games[0].env_id).prompt
            chat = ChatTokenizer.load(own, prompt.head())
            _require_pinned(recipe, text, chat_contents(chat, prompt.pairs))
            _require_pinned(recipe, text, {"base_sha256": base_sha256(own)})


def _require_pinned(recipe: LeagueRecipe, name: str, found: Mapping[str, Any]) -> None:
    """Refuse a guest with a part that is not as pinned; parts that were not found count for nothing."""
    if name not in recipe.opponents.pinned:
        return
    wanted = asdict(recipe.opponents.pinned[name])
    unheld: Container[str] = ("lora",) if wanted["adapter"] is None else ()
    other = [
        part
        for part, value in wanted.items()
        if part in found and part not in unheld and found[part] != value
    ]
    if other:
        raise ConfigError(
            f"opponents.pinned: {name!r} has another {' and '.join(other)} than the recipe pins. Give "
            "the weights and the prompt that were published, or take it out of `pinned`."
        )


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
