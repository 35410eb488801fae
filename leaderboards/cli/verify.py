"""`srl leaderboard verify`: check bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboards.cli.shared.options import BundlesOptions, LevelOptions, ReplayOptions
from leaderboards.cli.shared.progress import ProgressBar
from leaderboards.contents.fields import visible
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from leaderboards.bundles.verify import Verdict

DESCRIPTION = """Check bundles up to a level.

levels, each with those before it:
  L0  hashes; the matches are those of the schedule, each once, in order; the agents may enter
  L1  the ratings follow from the matches
  L2  every episode, replayed in a fresh process, has the same result
  L3  bots give the same replies again; models' tokens are what their random numbers select from the
      declared weights (log-probabilities within 0.01 nats)

Of a board the log of registrations is checked, too, every signature of it, and from L2 on the matches behind
each bound on how far an agent can be beaten are played again.

Examples:
  srl leaderboard verify my-board
  srl leaderboard verify runs/board/bundles
  srl leaderboard verify submission/connect_four-v0/* --level L3 --workers 2
  srl leaderboard verify bundles --level L3 --model alice@30=tiny+snapshots/alice@30

exit codes: 0 all accepted, 1 one rejected, 2 a mistake in the command or something missing here.
"""


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(BundlesOptions, LevelOptions, ReplayOptions, JSONOptions):
    """Bundles to check, and the level."""


def main(argv: list[str]) -> int:
    """Exit code: 0 all accepted, 1 one rejected, 2 the user has something to fix."""
    options = read_options(
        VerifyOptions, command="srl leaderboard verify", description=DESCRIPTION, argv=argv
    )

    from leaderboards.bundles.submission import find_bundles
    from leaderboards.bundles.verify import verify

    given = sources_of(options.model)
    folders = [found for path in given_paths(options.bundles) for found in find_bundles(path)]
    logs = _logs(options.bundles)
    if not options.json:
        for path, tickets in logs.items():
            print(f"{path}: {tickets} tickets hold: signatures, order and head")
    verdicts = []
    for folder, own in zip(folders, weights(given, folders), strict=True):
        with ProgressBar(options.json) as bar:
            verdicts.append(
                verify(
                    folder, options.level, workers=options.workers, sources=own, progress=bar.show
                )
            )
        if not options.json:
            print(sentence(verdicts[-1]), flush=True)
    tried = replayed_exploits(options.bundles, options.json) if options.level >= "L2" else {}
    if options.json:
        shown = [{**asdict(v), "accepted": v.accepted} for v in verdicts]
        shown += [
            {"exploit": path, "rejected": wrong, "accepted": not wrong}
            for path, wrong in tried.items()
        ]
        print(plain_json(shown))
    return 0 if all(verdict.accepted for verdict in verdicts) and not any(tried.values()) else 1


def replayed_exploits(paths: Sequence[Path], quiet: bool) -> dict[str, str]:
    """File with a best response -> why it does not hold; empty where it does.

    Args:
        paths: boards among others.
        quiet: print nothing.
    """
    from leaderboards.exploits.evidence import evidence_files, read_evidence
    from leaderboards.exploits.retrial import retried
    from srl_envs.errors import StoreError

    found: dict[str, str] = {}
    for path in (path for given in paths for path in evidence_files(given)):
        try:
            with ProgressBar(quiet) as bar:
                wrong = retried(
                    read_evidence(path), lambda done, of: bar.show("best response", done, of)
                )
        except StoreError as error:
            wrong = str(error)
        found[str(path)] = wrong
        if not quiet:
            held = f"rejected: {wrong}" if wrong else "holds: every match played again"
            print(visible(f"{path}: {held}"), flush=True)
    return found


def _logs(paths: Sequence[Path]) -> dict[str, int]:
    """Log of each board among the paths -> its tickets, every one of which is signed and in its place.

    Raises:
        StoreError: one is not.
    """
    from leaderboards.registration.charter import CHARTER
    from leaderboards.registration.ticket_log import REGISTRATIONS, registrations

    boards = [path for path in paths if (path / CHARTER).exists()]
    return {str(path / REGISTRATIONS): len(registrations(path, full=True)) for path in boards}


def given_paths(paths: Sequence[Path]) -> Sequence[Path]:
    """The same.

    Raises:
        ConfigError: there is none.
    """
    if not paths:
        raise ConfigError("give PATH: bundles, or folders of some.")
    return paths


def sentence(verdict: Verdict) -> str:
    """A verdict as a sentence."""
    return visible(_sentence(verdict))


def _sentence(verdict: Verdict) -> str:
    if verdict.accepted:
        notes = f" ({'; '.join(verdict.notes)})" if verdict.notes else ""
        return f"{verdict.bundle}: {verdict.reached} holds: {'; '.join(verdict.checked.values())}{notes}"
    held = f"{verdict.reached} holds, the next level does not" if verdict.reached else "rejected"
    return f"{verdict.bundle}: {held}: {verdict.rejected}"


def sources_of(texts: Sequence[str]) -> dict[str, str]:
    """Agent id -> where its weights are.

    Raises:
        ConfigError: a text is not AGENT=MODEL.
    """
    given = {}
    for text in texts:
        name, equals, source = text.partition("=")
        if not equals or not name or not source:
            raise ConfigError(f"--model {text!r}: write AGENT=MODEL or AGENT=MODEL+FOLDER.")
        given[name] = source
    return given


def weights(
    given: Mapping[str, str], folders: Sequence[Path], lenders: Sequence[Path] = ()
) -> list[dict[str, str]]:
    """Sources that each bundle needs: those given, and adapters that other bundles hold.

    Args:
        given: agent id -> model.
        folders: of the bundles.
        lenders: folders of other bundles that may hold adapters.

    Raises:
        ConfigError: no bundle has an agent that is given.
    """
    from leaderboards.bundles.lent_adapters import lent_adapters

    named = [{name: given[name] for name in _models(folder) & given.keys()} for folder in folders]
    if missing := given.keys() - {name for own in named for name in own}:
        raise ConfigError(f"--model {min(missing)}=...: no bundle has such a model.")
    lent = lent_adapters([*folders, *lenders])
    return [{**found, **own} for found, own in zip(lent, named, strict=False)]


def _models(folder: Path) -> set[str]:
    """Agents with weights; none where the bundle is damaged, which `verify` reports."""
    from leaderboards.bundles.agent_specs import is_model
    from leaderboards.bundles.submission import open_bundle
    from leaderboards.contents.intake import BundleError

    try:
        return {agent.agent_id for agent in open_bundle(folder).entrants if is_model(agent)}
    except BundleError:
        return set()
