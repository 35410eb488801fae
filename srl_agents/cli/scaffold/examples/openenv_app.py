"""A server of OpenEnv for one seat of one game; other bots play the rest."""

from __future__ import annotations

import argparse

from srl_envs.adapters.openenv import create_server

GAME, SEAT, BOTS = "nim-v0", 0, {1: "middle"}

app = create_server(GAME, seat=SEAT, bots=BOTS)


def main() -> None:
    """Serve until it is interrupted."""
    import uvicorn

    parser = argparse.ArgumentParser(description=f"Serve {GAME} to clients of OpenEnv.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    uvicorn.run(app, host=options.host, port=options.port)


if __name__ == "__main__":
    main()
