"""Examples that belong to a policy, beside its adapter's weights: how they lie in its folder."""

from __future__ import annotations

import json
from pathlib import Path

from srl_envs.errors import UnknownPolicyError

_FILE = "examples.json"
Examples = tuple[tuple[str, str], ...]
"""(observation, reply) pairs that a policy is shown before every observation."""


def write_examples(folder: Path, examples: Examples) -> None:
    """Put a policy's examples beside its adapter; no file where there are none."""
    if examples:
        (folder / _FILE).write_text(json.dumps(examples, indent=1))


def read_examples(folder: Path) -> Examples:
    """The examples of the policy in an adapter's folder.

    Raises:
        UnknownPolicyError: the file is there and holds something else.
    """
    path = folder / _FILE
    if not path.is_file():
        return ()
    try:
        return tuple((str(seen), str(said)) for seen, said in json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise UnknownPolicyError(
            f"{path} holds no [observation, reply] pairs ({type(error).__name__}: {error})."
        ) from None
