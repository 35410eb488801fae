"""`srl leaderboard opponent`: let learners meet an agent of a board."""

from __future__ import annotations

from dataclasses import dataclass

from leaderboards.cli.shared.options import BoardAgentOptions, FingerprintOptions
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import ResultOptions, meaning
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

DESCRIPTION = """Print the settings of a recipe that meet an agent of a board in training.

Examples:
  srl leaderboard opponent leaderboards/published tiny
  srl leaderboard opponent my-board alice@30 --model tiny+runs/quickstart/adapters/alice --out alice.yaml
  srl train my-recipe --set "opponents.agents={...}" --set "opponents.pinned={...}"

The board's signatures are checked; what does not hold is set aside and cannot be met. The settings pin
the agent's weights and prompt by their hashes, and a run that finds others does not begin. How the agent is
sampled follows from the recipe that it plays in.
"""


@dataclass(frozen=True, kw_only=True)
@meaning(out="Write the section to this file; printed if absent.")
class OpponentOptions(BoardAgentOptions, FingerprintOptions, ResultOptions):
    """The agent to meet, and its board."""

    model: str = ""
    """MODEL or MODEL+ADAPTER with its weights, where the board does not hold them."""


def main(argv: list[str]) -> int:
    """Exit code: 0 done, 2 the user has something to fix."""
    options = read_options(
        OpponentOptions, command="srl leaderboard opponent", description=DESCRIPTION, argv=argv
    )

    import yaml

    from leaderboards.boards.archive import read_board
    from leaderboards.boards.opponents import check_mentioned, opponent_settings, published
    from srl_agents.agents.contents import SHOWN

    if not options.board.is_dir():
        raise ConfigError(
            f"{options.board} is not a board: give the folder that `publish` writes to."
        )
    check_mentioned(options.board, options.agent, options.protocol)
    board = read_board(options.board)
    if options.fingerprint and options.fingerprint != board.fingerprint:
        raise ConfigError(
            f"--fingerprint {options.fingerprint}: this board is signed by {board.fingerprint or 'no key'}."
        )
    found = published(board, options.agent, options.protocol)
    prompt = None if options.out is None else options.out.with_suffix(".prompt.json").resolve()
    settings = opponent_settings(found, model=options.model, prompt_file=prompt)
    sampling = found.agent.spec.get("sampling")
    played = f"; sampled there with {dict(sampling)}" if sampling else ""
    text = (
        f"# {options.agent} of {options.board}, key {board.fingerprint}: {found.protocol}, verified to "
        f"{found.entry.level}{played}\n{yaml.safe_dump(settings, sort_keys=False)}"
    )
    if options.out is None:
        print(text, end="")
        return 0
    options.out.write_text(text, encoding="utf-8")
    if SHOWN in found.agent.spec and prompt is not None:
        prompt.write_text(plain_json(found.agent.spec[SHOWN], indent=1), encoding="utf-8")
    print(f"{options.out}: put it into a recipe")
    return 0
