"""Check a bundle, level by level, up to the first thing that is not as it claims.

What each level shows, and what none can: docs/design/leaderboards.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from leaderboards.agents import (
    API,
    ENDPOINT,
    NAME,
    SAMPLER,
    SHOWN,
    bot_version,
    is_model,
    is_served,
    shown_to,
)
from leaderboards.audit import Auditor
from leaderboards.bundle import (
    ADAPTER_FILES,
    MANIFEST,
    MATCHES,
    RATINGS,
    TOKENS,
    TRANSCRIPTS,
    Bundle,
    BundleError,
    adapter_folder,
    file_hashes,
    name_of,
    open_bundle,
)
from leaderboards.claims import disagreement, ratings
from leaderboards.protocol import BOT, ROOT_SEED, Protocol
from leaderboards.record import MatchRecord, SampledTurn, first_difference, result_of
from leaderboards.replaying import replay_all
from leaderboards.served import Reports, served_fault
from srl_agents.league.agents import AgentVersion
from srl_agents.league.rows import check_fit
from srl_agents.policies.endpoint import (
    MOST_MODEL_CHARACTERS,
    EndpointSettings,
    is_model_name,
)
from srl_agents.records import digest
from srl_envs import spec
from srl_envs.errors import ConfigError, StoreError

Level = Literal["L0", "L1", "L2", "L3"]
LEVELS: tuple[Level, ...] = get_args(Level)
_DIGITS = frozenset("0123456789abcdef")

Told = Callable[[str, int, int], None]
"""(what is being done, how much of it, of how much)."""


@dataclass(slots=True)
class Verdict:
    """What came of it."""

    bundle: str
    """Folder."""
    asked: Level
    reached: Level | None = None
    """Highest level that holds."""
    rejected: str = ""
    """Why the next level does not; empty for an honest bundle."""
    checked: dict[str, str] = field(default_factory=dict)
    """Level -> what was looked at."""
    notes: list[str] = field(default_factory=list)
    """True, and worth knowing."""

    @property
    def accepted(self) -> bool:
        """Whether everything that was asked holds."""
        return self.reached == self.asked


def verify(
    folder: Path,
    level: Level,
    *,
    workers: int = 1,
    sources: Mapping[str, str] | None = None,
    told: Told | None = None,
) -> Verdict:
    """Check a bundle.

    Args:
        folder: of the bundle.
        level: the last one to check; the earlier ones are checked first.
        workers: processes that replay; 0 replays in this one.
        sources: for L3, agent id -> model, where the bundle does not hold an adapter.
        told: called as the work goes on.

    Raises:
        ConfigError: L3 needs weights that are not there.
        ModelError: a model cannot be loaded.
        SandboxError: replaying failed for a reason of ours.
    """
    verdict = Verdict(str(folder), level)
    tell = told or (lambda *_: None)
    try:
        bundle = open_bundle(folder)
        _integrity(bundle, verdict, tell)
        if level >= "L1":
            _ratings(bundle, verdict)
        if level >= "L2":
            _replays(bundle, verdict, workers, sources or {}, tell)
    except BundleError as error:
        verdict.rejected = str(error)
    return verdict


# --- L0 --------------------------------------------------------------------------------------


def _integrity(bundle: Bundle, verdict: Verdict, tell: Told) -> None:
    _check_agents(bundle)
    by_id = {agent.agent_id: agent for agent in bundle.agents}
    faults, reports = 0, Reports()
    for number, record in enumerate(bundle.records()):
        if wrong := _shape(record, by_id):
            raise BundleError(f"{name_of(number, record.spec)}: {wrong}.")
        faults += len(record.faults)
        reports.add(record)
        tell("hashes", number + 1, len(bundle.specs))
    _check_files(bundle)
    if bundle.claim["ratings_sha256"] != digest(bundle.ratings):
        raise BundleError(f"{RATINGS} is not the one that the manifest names.")
    verdict.reached = "L0"
    verdict.checked["L0"] = f"{len(bundle.specs)} matches, hashes and schedule"
    if not bundle.complete:
        verdict.notes.append(f"{bundle.seeds} of the protocol's {bundle.protocol.seeds} seeds")
    if faults:
        verdict.notes.append(f"{faults} tries were void and played again")
    attempts = bundle.claim["declared"]["attempts"]
    if attempts > 1:
        verdict.notes.append(f"chosen from {attempts} attempts, as declared")
    verdict.notes += [
        f"{agent.agent_id} answered through an endpoint: which weights replied, nobody can check"
        for agent in bundle.entrants
        if is_served(agent)
    ]
    verdict.notes += reports.notes()


def _check_agents(bundle: Bundle) -> None:
    """References as the protocol has them, entrants that may enter.

    Raises:
        BundleError: names the agent.
    """
    protocol = bundle.protocol
    declared = bundle.claim.get("declared")
    if not isinstance(declared, dict) or type(declared.get("attempts")) is not int:
        raise BundleError(f"{MANIFEST}: claim.declared.attempts is no whole number.")
    names = [agent.agent_id for agent in bundle.agents]
    if len(set(names)) < len(names):
        raise BundleError(f"{MANIFEST}: an agent is declared twice.")
    for number, name in enumerate(protocol.references):
        if bundle.agents[number : number + 1] != (bot_version(name, protocol),):
            raise BundleError(
                f"{MANIFEST}: agent {number} is not the reference {name} of the protocol."
            )
    for agent in bundle.entrants:
        if agent.agent_id.startswith(BOT):
            known = agent.agent_id.removeprefix(BOT) in spec(protocol.env).bots
            wrong = (
                "" if known and agent == bot_version(agent.agent_id, protocol) else "no such bot"
            )
        else:
            wrong = _sampling_fault(agent, protocol)
        if wrong:
            raise BundleError(f"{MANIFEST}: agent {agent.agent_id}: {wrong}.")


def _sampling_fault(agent: AgentVersion, protocol: Protocol) -> str:
    """Why a model may not enter; empty if it may."""
    if not NAME.fullmatch(agent.agent_id):
        return "its name is none that `srl leaderboard run` gives"
    told, decoding = agent.spec, protocol.decoding
    sampling = told.get("sampling")
    most = sampling.get("max_new_tokens") if isinstance(sampling, dict) else None
    wanted: dict[str, Any] = {
        "sampling": {"temperature": decoding.temperature, "max_new_tokens": most},
        "stop": list(decoding.stop),
        "parser": protocol.env,
    }
    if not is_served(agent):
        wanted |= {"sampler": SAMPLER, "root_seed": ROOT_SEED}
    for key, value in wanted.items():
        if told.get(key) != value:
            return f"{key} is {told.get(key)!r}, the protocol wants {value!r}"
    if type(most) is not int or not 1 <= most <= decoding.max_new_tokens:
        return f"max_new_tokens is {most!r}, the protocol allows 1 to {decoding.max_new_tokens}"
    try:
        shown_to(told)
    except ConfigError as error:
        return str(error)
    return _endpoint_fault(told) if is_served(agent) else _weights_fault(told)


def _weights_fault(told: Mapping[str, Any]) -> str:
    for key in ("base", "base_sha256", "prompt", "tokenizer"):
        if not told.get(key) or not isinstance(told[key], str):
            return f"{key} is missing"
    if set(told["base_sha256"]) - _DIGITS:
        return "base_sha256 is no hash"
    if "adapter" not in told or not isinstance(told["adapter"], (str, type(None))):
        return "adapter is neither a hash nor null"
    return ""


def _endpoint_fault(told: Mapping[str, Any]) -> str:
    """A served model declares whom it asked, and no weights beside that."""
    if more := set(told) - {ENDPOINT, SHOWN, "sampling", "stop", "parser"}:
        return f"it answers through an endpoint, which cannot have {min(more)}"
    where = told[ENDPOINT]
    keys = {"api", "url", "model", "reported"}
    if not isinstance(where, dict) or set(where) != keys or where["api"] != API:
        return f"{ENDPOINT} is {where!r}; it names api ({API}), url, model and reported"
    if not (isinstance(where["url"], str) and isinstance(where["model"], str)):
        return f"{ENDPOINT} is {where!r}; url and model are text"
    if not is_model_name(where["reported"]):
        return (
            f"{ENDPOINT}: reported is no name of a model, which is printable text of at most "
            f"{MOST_MODEL_CHARACTERS} characters"
        )
    try:
        EndpointSettings(url=where["url"], model=where["model"])
    except ConfigError as error:
        return str(error)
    return ""


def _shape(record: MatchRecord, agents: Mapping[str, AgentVersion]) -> str:
    """What contradicts itself within one record; empty if nothing does."""
    try:
        check_fit(record.spec.match_id, record.spec, record.result)
        endpoints = [name for name, agent in agents.items() if is_served(agent)]
        if wrong := served_fault(record, endpoints):
            return wrong
        models = [seat for seat, name in enumerate(record.spec.seats) if is_model(agents[name])]
        if not set(record.tokens) <= set(models):
            return f"tokens of the seats {sorted(record.tokens)}, models sit on {models}"
        for seat in models:
            turns = sum(seat in step.replies for step in record.transcript.steps)
            if len(record.tokens.get(seat, ())) != turns:
                return f"seat {seat} replied {turns} times, tokens are there for another number"
        if not all(_are_tokens(turn) for turns in record.tokens.values() for turn in turns):
            return "token ids are not whole numbers with one log-probability each"
        return first_difference(
            record.result, result_of(record.spec, record.transcript, record.tokens)
        )
    except StoreError as error:
        return str(error)
    except (TypeError, AttributeError, IndexError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _are_tokens(turn: SampledTurn) -> bool:
    return (
        all(type(token) is int for token in turn.token_ids)
        and all(type(value) in (int, float) for value in turn.logprobs)
        and len(turn.token_ids) == len(turn.logprobs)
    )


def _check_files(bundle: Bundle) -> None:
    found, told = file_hashes(bundle.folder), bundle.manifest["files"]
    known = {MATCHES, TRANSCRIPTS, RATINGS, TOKENS}
    for agent in bundle.entrants:
        folder = adapter_folder(bundle.folder, agent.agent_id).relative_to(bundle.folder)
        known |= {str(folder / name) for name in ADAPTER_FILES}
    for name in sorted({*found, *told}):
        if found.get(name) != told.get(name):
            state = "missing" if name not in found else "not in the manifest"
            state = "another file than the manifest's" if {name} <= {*found} & {*told} else state
            raise BundleError(f"{name} is {state}.")
        if name not in known:
            raise BundleError(f"{name} is no part of a bundle.")


# --- L1 --------------------------------------------------------------------------------------


def _ratings(bundle: Bundle, verdict: Verdict) -> None:
    if wrong := disagreement(bundle.ratings, ratings(bundle.protocol, bundle.matches())):
        raise BundleError(f"{wrong}.")
    verdict.reached = "L1"
    verdict.checked["L1"] = f"{len(bundle.ratings['rows'])} rows recomputed"


# --- L2 and L3 -------------------------------------------------------------------------------


def _replays(
    bundle: Bundle, verdict: Verdict, workers: int, sources: Mapping[str, str], tell: Told
) -> None:
    """One pass for both levels; a model's false reply does not hide a false match that comes later."""
    auditor, forged = None, ""
    audited = verdict.asked == "L3"
    served = next((agent for agent in bundle.entrants if is_served(agent)), None)
    if audited and served is not None:
        forged = (
            f"agent {served.agent_id} answered through an endpoint: there are no weights to audit, so "
            "its bundle reaches L2 at most."
        )
    elif audited:
        try:
            auditor = Auditor(bundle, sources)
        except BundleError as error:
            forged = str(error)
    replays = replay_all(bundle.records(), workers=workers)
    for number, (record, replay) in enumerate(replays):
        place = name_of(number, record.spec)
        if replay.fault:
            raise BundleError(f"{place} does not replay: {replay.fault}.")
        if replay.impostor:
            raise BundleError(f"{place}: {replay.impostor}.")
        if auditor is not None and not forged:
            forged = _named(bundle, auditor.add(number, record, replay.observations))
        tell("replay", number + 1, len(bundle.specs))
    verdict.checked["L2"] = f"{len(bundle.specs)} matches replayed, bots acted again" + (
        " in a fresh process" if workers else ""
    )
    verdict.reached = "L2"
    if auditor is not None and not forged:
        forged = _named(bundle, auditor.finish())
    if forged:
        raise BundleError(forged)
    if auditor is not None:
        verdict.checked["L3"] = f"{auditor.turns} replies of models scored"
        verdict.reached = "L3"


def _named(bundle: Bundle, found: tuple[int, str] | None) -> str:
    """A finding of the auditor as a sentence."""
    return f"{name_of(found[0], bundle.specs[found[0]])}: {found[1]}." if found else ""
