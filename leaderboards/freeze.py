"""`python -m leaderboards.freeze [FOLDER]`: record the hash of every new protocol; refuse changed ones.

Without a folder: of the protocols that SRL ships.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from leaderboards.protocol import (
    FOLDER,
    FROZEN,
    check_environment,
    frozen_hashes,
    load_protocol,
    protocol_names,
)
from srl_envs.errors import ConfigError


def freeze(folder: Path = FOLDER) -> list[str]:
    """Add what is not frozen yet to ``frozen.json``.

    Args:
        folder: holds protocols; those of another package lie in a folder of that package.

    Returns:
        ``NAME/VERSION`` of the new ones.

    Raises:
        ConfigError: a frozen protocol was changed, one does not fit its environment, or there is none.
    """
    known = frozen_hashes(folder) if (folder / FROZEN).is_file() else {}
    new = {}
    names = protocol_names(folder)
    if not names:
        raise ConfigError(f"{folder} holds no protocol, which is a file NAME.json.")
    for name in names:
        protocol = load_protocol(name, folder)
        check_environment(protocol)
        key = f"{name}/{protocol.version}"
        if known.get(key, protocol.sha256) != protocol.sha256:
            raise ConfigError(
                f"{name}.json was changed after version {protocol.version} was frozen: results under "
                f"the two do not compare. Give it version {protocol.version + 1}."
            )
        if key not in known:
            new[key] = protocol.sha256
    text = json.dumps(known | new, indent=1, sort_keys=True, allow_nan=False) + "\n"
    (folder / FROZEN).write_text(text, encoding="utf-8")
    return sorted(new)


if __name__ == "__main__":
    try:
        added = freeze(*map(Path, sys.argv[1:2]))
    except ConfigError as refusal:
        sys.exit(f"freeze: {refusal}")
    sys.stdout.write(f"{len(added)} new: {', '.join(added) or 'none'}\n")
