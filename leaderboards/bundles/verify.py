"""Verify a bundle level by level, up to the first false claim.

What each level shows, and what none can: docs/design/leaderboards.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

from leaderboards.bundles.agent_specs import is_model, is_served
from leaderboards.bundles.audit import Auditor
from leaderboards.bundles.replaying import replay_all
from leaderboards.bundles.submission import Bundle, adapter_folder, name_of, open_bundle
from leaderboards.contents.claims import SCHEMAS, ratings, wrong_claim
from leaderboards.contents.intake import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    MANIFEST,
    MATCHES,
    RATINGS,
    TOKENS,
    TRANSCRIPTS,
    BundleError,
    PrivateCopy,
    private_copy,
)
from leaderboards.contents.served import Reports
from srl_agents.records import digest

Level = Literal["L0", "L1", "L2", "L3"]
LEVELS: tuple[Level, ...] = get_args(Level)

_CLOCKS = timedelta(days=1)
"""Largest allowed difference between the clocks of entrant, board and verifier."""

Progress = Callable[[str, int, int], None]
"""(task, parts done, parts in all)."""


@dataclass(slots=True)
class Verdict:
    """Result of verifying a bundle."""

    bundle: str
    """Folder of the bundle."""
    asked: Level
    root: str = ""
    """Hash of what was checked; empty if not even L0 holds."""
    reached: Level | None = None
    """Highest level that holds."""
    rejected: str = ""
    """Why the next level does not; empty for an honest bundle."""
    checked: dict[str, str] = field(default_factory=dict)
    """Level -> what was checked."""
    notes: list[str] = field(default_factory=list)
    """Remarks that do not change the verdict."""

    @property
    def accepted(self) -> bool:
        """Whether everything that was asked holds."""
        return self.reached == self.asked


def verify(
    bundle: Path | PrivateCopy,
    level: Level,
    *,
    workers: int = 1,
    sources: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Check a bundle.

    Args:
        bundle: its folder, of which a private copy is made for as long as this takes; or such a copy.
        level: the last one to check; the earlier ones are checked first.
        workers: processes that replay; 0 replays in this one.
        sources: for L3, agent id -> model, where the bundle does not hold an adapter.
        progress: called as the work goes on.

    Raises:
        ConfigError: L3 needs weights that are not there.
        ModelError: a model cannot be loaded.
        SandboxError: replaying failed through a fault of SRL.
    """
    if isinstance(bundle, PrivateCopy):
        return _verify(bundle, level, workers, sources or {}, progress or (lambda *_: None))
    try:
        with private_copy(bundle) as copy:
            return verify(copy, level, workers=workers, sources=sources, progress=progress)
    except BundleError as error:
        return Verdict(str(bundle), level, rejected=str(error))


def _verify(
    copy: PrivateCopy, level: Level, workers: int, sources: Mapping[str, str], progress: Progress
) -> Verdict:
    verdict = Verdict(str(copy.source), level)
    try:
        bundle = open_bundle(copy.folder)
        _integrity(copy, bundle, verdict, progress)
        if level >= "L1":
            _ratings(bundle, verdict)
        if level >= "L2":
            _replays(bundle, verdict, workers, sources, progress)
    except BundleError as error:
        verdict.rejected = str(error)
    return verdict


# --- L0 --------------------------------------------------------------------------------------


def _integrity(copy: PrivateCopy, bundle: Bundle, verdict: Verdict, progress: Progress) -> None:
    faults, reports = 0, Reports()
    for number, record in enumerate(bundle.records()):
        faults += len(record.faults)
        reports.add(record.spec.seats, record.served)
        progress("hashes", number + 1, len(bundle.specs))
    if wrong := _time_fault(bundle, datetime.now(UTC)):
        raise BundleError(f"{MANIFEST}: provenance: {wrong}.")
    if bundle.claim["ratings_sha256"] != digest(bundle.ratings):
        raise BundleError(f"{RATINGS} is not the one that the manifest names.")
    _check_files(copy, bundle)
    verdict.root, verdict.reached = bundle.root, "L0"
    verdict.checked["L0"] = f"{len(bundle.specs)} matches, hashes and schedule"
    if not bundle.complete:
        verdict.notes.append(f"{bundle.seeds} of the protocol's {bundle.protocol.seeds} seeds")
    if faults:
        verdict.notes.append(f"{faults} tries were void and played again")
    attempts = bundle.claim["declared"]["attempts"]
    if attempts > 1:
        verdict.notes.append(f"chosen from {attempts} attempts, as declared")
    verdict.notes += [
        f"{agent.agent_id} answered through an endpoint: its weights cannot be checked"
        for agent in bundle.entrants
        if is_served(agent)
    ]
    verdict.notes += reports.notes()


def _time_fault(bundle: Bundle, now: datetime) -> str:
    """Why a run cannot have been played at its bundle's times; empty if it can."""
    times = bundle.manifest["provenance"]
    started, ended = (datetime.fromisoformat(times[name]) for name in ("started", "ended"))
    if started > ended:
        return f"it started at {times['started']} and ended before, at {times['ended']}"
    if ended > now + _CLOCKS:
        return f"it ended at {times['ended']}, which is in the future"
    if bundle.ticket and datetime.fromisoformat(bundle.ticket.when) > ended + _CLOCKS:
        return f"it ended at {times['ended']}, before its ticket was drawn at {bundle.ticket.when}"
    return ""


def _check_files(copy: PrivateCopy, bundle: Bundle) -> None:
    """The files are those that the manifest names, and each has a use.

    Raises:
        BundleError: names the first that is or has not.
    """
    known = {MATCHES, TRANSCRIPTS, RATINGS}
    models = [agent for agent in bundle.entrants if is_model(agent)]
    known |= {TOKENS} if models else set()
    for agent in models:
        if agent.spec["adapter"] is not None:
            folder = adapter_folder(Path(), agent.agent_id)
            known |= {str(folder / name) for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS)}
    listed = bundle.manifest["files"]
    for name in sorted({*copy.files, *listed}):
        if name not in known:
            raise BundleError(f"{name} is not part of this bundle.")
        if copy.files.get(name) != listed.get(name):
            state = "missing" if name not in copy.files else "not in the manifest"
            both = name in copy.files and name in listed
            raise BundleError(
                f"{name} is {'not the file that the manifest names' if both else state}."
            )


# --- L1 --------------------------------------------------------------------------------------


def _ratings(bundle: Bundle, verdict: Verdict) -> None:
    if wrong := wrong_claim(bundle.ratings, ratings(bundle.protocol, bundle.matches())):
        raise BundleError(f"{wrong}.")
    verdict.reached = "L1"
    checked = f"{len(bundle.ratings['rows'])} rows recomputed"
    earlier = bundle.ratings["schema"] != SCHEMAS[-1] and bundle.ratings["measure"] == "elo"
    verdict.checked["L1"] = checked + (", intervals by an earlier rule" if earlier else "")


# --- L2 and L3 -------------------------------------------------------------------------------


def _replays(
    bundle: Bundle, verdict: Verdict, workers: int, sources: Mapping[str, str], progress: Progress
) -> None:
    """One pass for both levels; a model's false reply does not hide a false match that comes later."""
    auditor, forged = None, ""
    audited = verdict.asked == "L3"
    served = next((agent for agent in bundle.entrants if is_served(agent)), None)
    if audited and served is not None:
        forged = (
            f"agent {served.agent_id} answered through an endpoint: it has no weights to audit, so "
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
        progress("replay", number + 1, len(bundle.specs))
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
