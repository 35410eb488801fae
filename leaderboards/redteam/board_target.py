"""The target ``board`` of `srl redteam`: forged bundles against everything that takes bundles in.

An honest bundle of one small protocol is played, then changed field by field and file by file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from leaderboards.boards.publishing import publish
from leaderboards.bundles.run import BoardRun, opened
from leaderboards.bundles.submission import Bundle, open_bundle, write_bundle
from leaderboards.bundles.verify import verify
from leaderboards.contents.intake import BundleError
from leaderboards.protocol import load_protocol
from leaderboards.redteam.field_forgeries import Forgery, field_forgeries
from leaderboards.redteam.file_forgeries import file_forgeries
from leaderboards.redteam.forger import Forger
from srl_envs.errors import ConfigError
from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report

TARGET = "board"
_PROTOCOL = "kuhn_poker-v0"


@contextlib.contextmanager
def honest_bundle() -> Iterator[tuple[Bundle, Path]]:
    """A bundle of one seed without entrants, and a folder that is removed after use.

    Keys are made in that folder, so the account that runs the attack keeps its own.
    """
    own_keys = os.environ.get("SRL_KEYS")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["SRL_KEYS"] = str(folder / "keys")
        try:
            run = BoardRun(load_protocol(_PROTOCOL), [], folder / "run", seeds=1)
            with opened(run):
                run.play()
            yield write_bundle(folder / "run", folder / "bundles"), folder
        finally:
            if own_keys is None:
                del os.environ["SRL_KEYS"]
            else:
                os.environ["SRL_KEYS"] = own_keys


def forgeries(bundle: Bundle, folder: Path) -> list[Forgery]:
    """All forgeries; fields and files in turn, so that a short budget tries both."""
    sample = Forger.of(bundle, folder / "sample")
    pairs = zip_longest(file_forgeries(sample), field_forgeries(sample))
    return [forgery for pair in pairs for forgery in pair if forgery is not None]


def accepted_by(bundle: Bundle, forgery: Forgery, folder: Path) -> str:
    """Which step takes the forged bundle, or fails in its own way; empty where it is refused."""
    work = folder / "forged"
    board = folder / "board"
    try:
        forged = forgery.make(Forger.of(bundle, work))
        verdict = verify(forged, "L0")
        if verdict.reached is not None:
            return "verify accepts it"
        try:
            publish(open_bundle(forged), verdict, board)
        except (ConfigError, BundleError):
            return "publish leaves a folder behind" if board.exists() else ""
        return "publish accepts it"
    except Exception as error:  # noqa: BLE001 - that a bundle can end the intake is the finding
        return f"the intake ends in {type(error).__name__}: {error}"[:200]
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(board, ignore_errors=True)


def probe(_seed: int, report: Report, allowance: Allowance) -> None:
    """Every forgery; nothing is drawn at random."""
    tried = 0
    with honest_bundle() as (bundle, folder):
        for forgery in forgeries(bundle, folder):
            if not allowance.left():
                break
            tried += 1
            allowance.spend()
            found = _judged(bundle, forgery, folder)
            if found is not None:
                report.findings.append(found)
    report.measures["verdicts"] = tried


def _judged(bundle: Bundle, forgery: Forgery, folder: Path) -> Finding | None:
    what = accepted_by(bundle, forgery, folder)
    if not what:
        return None
    return Finding(
        kind="forged_bundle_accepted",
        target=TARGET,
        observed=f"{forgery.name}: {what}",
        expected="a refusal that names the place",
        case={"probe": TARGET, "target": TARGET, "forgery": forgery.name},
    )


def check(case: Case) -> Finding | None:
    """Make a forgery again.

    Raises:
        ConfigError: no forgery has that name.
    """
    with honest_bundle() as (bundle, folder):
        for forgery in forgeries(bundle, folder):
            if forgery.name == case["forgery"]:
                return _judged(bundle, forgery, folder)
    raise ConfigError(f"no forgery {case['forgery']!r}: the schema has changed since it was saved.")
