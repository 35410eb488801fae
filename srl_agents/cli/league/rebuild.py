"""`srl league rebuild RUN`: make a damaged store anew from what is left of the run."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, RunFolderOptions
from srl_agents.records import plain_json
from srl_agents.training.folder.layout import RECIPE, STORE
from srl_envs.errors import ConfigError

DESCRIPTION = """Make a damaged or lost league.db anew, and say what is lost.

Matches come from the pages of the damaged file that can be read, and from transcripts.jsonl; agents come from
both the file and the newest checkpoint. The damaged file stays beside the new one under another name. The run
goes on afterwards: learners continue from their checkpoint, and matches of a final round robin that are
missing are played again.

Example:
  srl league rebuild runs/quickstart-tiny-seed0
"""


@dataclass(frozen=True)
class RebuildOptions(RunFolderOptions, JSONOptions):
    """Which store."""


def rebuild(argv: list[str]) -> int:
    """Run the command; see `srl league rebuild --help`."""
    options = read_options(
        RebuildOptions, command="srl league rebuild", description=DESCRIPTION, argv=argv
    )
    folder = options.run
    if not (folder / RECIPE).is_file():
        raise ConfigError(f"{folder} holds no {RECIPE}: it is not a run's folder.")

    from srl_agents.training import rebuilding

    if rebuilding.is_whole(folder):
        print(f"{folder / STORE} is whole; nothing was changed.")
        return 0
    done = rebuilding.rebuild(folder)
    if options.json:
        aside = None if done.aside is None else str(done.aside)
        print(plain_json({**asdict(done), "aside": aside}, indent=2))
        return 0
    print(
        f"{folder / STORE} is rebuilt: {done.agents} agents, {done.matches} matches ({done.salvaged} from "
        f"the damaged file, {done.transcribed} from transcripts)."
    )
    lost = done.acknowledged - done.matches
    if lost > 0:
        print(
            f"Lost: {lost} of {done.acknowledged} matches. Ratings count the others; learners lose nothing."
        )
    elif not done.acknowledged:
        print("How many matches there were before is unknown: the lock beside the store is gone.")
    if done.aside is not None:
        print(f"The damaged file: {done.aside}")
    print(f"To go on: srl league resume {folder}")
    return 0
