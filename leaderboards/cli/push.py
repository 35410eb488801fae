"""`srl push RUN|BOARD OWNER/NAME`: share a run's adapters, or a board with its site, on a model hub."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboards.cli.shared.progress import ProgressBar
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import (
    JSONOptions,
    RepositoryOptions,
    SetOptions,
    SubjectOptions,
    TrialOptions,
)
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

if TYPE_CHECKING:
    from srl_agents.cli.exchange.parcel import Parcel

DESCRIPTION = """Share a finished run or a board on the hub, in one commit.

Of a run go the learners' weights with their cards, results with intervals, the numbers of its curves and the
recipe; of a board its site, as a static Space, and its bundles, which readers can verify. Nothing else of the
folder goes, and a text that holds a key stops it. The key of the hub is HF_TOKEN or that of `hf auth login`,
and HF_ENDPOINT names another hub. A new repository is private; --public opens it when everything is there. A
push that is killed on the way shows nothing new: push again.

Examples:
  srl push runs/quickstart-tiny-seed0 alice/quickstart --dry-run
  srl push runs/quickstart-tiny-seed0 alice/quickstart --public
  srl push runs/mine alice/mine --set model=Qwen/Qwen3-4B    # the run read its base from a folder
  srl push my-board alice/my-board --public
"""


@dataclass(frozen=True, kw_only=True)
class PushOptions(SetOptions, TrialOptions, JSONOptions, RepositoryOptions, SubjectOptions):
    """What is shared, and where."""

    public: bool = False
    """Let everyone read the repository; otherwise it stays as it is, and a new one is private."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl push --help`."""
    options = read_options(PushOptions, command="srl push", description=DESCRIPTION, argv=argv)

    from srl_agents.cli.exchange.hub import Hub
    from srl_agents.cli.exchange.parcel import packed, size_of

    _require_content(Path(options.what))
    hub = Hub(options.repository, sends=not options.dry_run, quiet=options.json)
    with _parcel(options) as parcel:
        files = packed(parcel, hub.key)
        sizes = {name: size_of(content) for name, content in sorted(files.items())}
        for note in parcel.notes:
            print(f"note: {note}", file=sys.stderr)
        if options.dry_run:
            _show(options, sizes)
            return 0
        note = f"srl push {shlex.quote(Path(options.what).resolve().name)}"
        sent = hub.send(parcel.kind, files, public=options.public, note=note)
    if options.json:
        print(plain_json({**asdict(sent), "files": sizes}))
        return 0
    done = f"{len(sizes)} files, {_size(sum(sizes.values()))}" if sent.changed else "nothing new"
    print(f"{done}, commit {sent.commit[:12]}: {sent.url}")
    if sent.private:
        print("Only you can read it. --public lets everyone.")
    print(f"srl pull {options.repository}")
    return 0


@contextmanager
def _parcel(options: PushOptions) -> Iterator[Parcel]:
    """What goes, by what the folder holds.

    Raises:
        ConfigError: settings are changed of a board, or the run is not finished.
    """
    folder = Path(options.what)
    if (folder / "board.json").is_file():
        if options.set:
            raise ConfigError("--set changes a run's recipe; a board has none.")

        from leaderboards.pages.parcel import board_parcel

        with (
            ProgressBar(quiet=options.json) as bar,
            board_parcel(folder, options.repository, bar.show) as parcel,
        ):
            yield parcel
    else:
        from srl_agents.cli.exchange.trained import run_parcel

        yield run_parcel(folder, options.repository, options.set)


def _require_content(folder: Path) -> None:
    """Refuse a wrong folder before a key is asked for.

    Raises:
        ConfigError: it is neither a run nor a board.
    """
    if not any((folder / name).is_file() for name in ("board.json", "recipe.yaml")):
        raise ConfigError(
            f"{folder} is neither a run nor a board: it has no recipe.yaml and no board.json."
        )


def _show(options: PushOptions, sizes: dict[str, int]) -> None:
    if options.json:
        print(plain_json({"repository": options.repository, "files": sizes}))
        return
    for name, size in sizes.items():
        print(f"{_size(size):>9}  {name}")
    print(
        f"{_size(sum(sizes.values())):>9}  {len(sizes)} files to {options.repository}; nothing was sent."
    )


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
