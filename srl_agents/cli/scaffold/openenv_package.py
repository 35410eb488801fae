"""The files of a package for OpenEnv: the layout that its commands `build`, `validate` and `push` read."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files as package_files

from srl_envs.distribution import DISTRIBUTION

_MANIFEST = """spec_version: 1
name: NAME
version: 0.1.0
type: space
runtime: fastapi
app: server.app:app
port: 8000
validation:
  reward: {range: [-1.3, 1.0], oracle_tolerance: 0.0, floor_margin: 0.1}
  resources: {cpu: 1.0, memory_mb: 512, disk_mb: 256, episode_timeout_s: 60.0}
  capabilities: {verifier: {kind: reward_channel}}
  types: {tags: [game, text, multi-agent]}
"""
_DOCKERFILE = """FROM python:3.11-slim
COPY . /app/env
RUN pip install --no-cache-dir /app/env
WORKDIR /app/env
HEALTHCHECK CMD python -c "import urllib.request as r; r.urlopen('http://localhost:8000/health')"
CMD ["server", "--host", "0.0.0.0"]
"""
_PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "openenv-PROJECT"
version = "0.1.0"
description = "A game of SRL for OpenEnv"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["openenv>=0.10", "DISTRIBUTION"]

[project.optional-dependencies]
test = ["pytest>=8"]

[project.scripts]
server = "NAME.server.app:main"

[tool.setuptools]
packages = ["NAME", "NAME.server"]
package-dir = {"NAME" = ".", "NAME.server" = "server"}

[tool.setuptools.package-data]
NAME = ["openenv.yaml"]
"""
_PAGE = """# NAME

One seat of a game of SRL as an environment of OpenEnv; bots play the others. Which game, seat and bots:
the first lines of `server/app.py`.

    pip install .
    server --port 8000

Clients, with types or found by `AutoEnv.from_env("NAME", base_url=...)`:

    from NAME import CLASSAction, CLASSEnv

    with CLASSEnv(base_url="http://127.0.0.1:8000").sync() as env:
        result = env.reset(seed=7)
        result = env.step(CLASSAction(message="<action>1 1</action>"))

`openenv validate .` checks the package once `uv lock` has written its lock file; `openenv build` and
`openenv push` make and publish its image. `pytest` starts the server and plays an episode.
"""
_TEST = '''"""The server plays whole episodes with the package's own client."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import srl_envs
from NAME import CLASSAction, CLASSEnv
from NAME.server.app import GAME


@pytest.fixture
def url() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "NAME.server.app", "--port", str(port)]
    with subprocess.Popen(command) as server:
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=5).close()
                    break
                except ConnectionRefusedError:
                    assert server.poll() is None, "the server ended"
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def test_an_episode_is_played_to_its_end(url: str) -> None:
    bot = srl_envs.make_bot(GAME, "random", seed=1)
    with CLASSEnv(base_url=url).sync() as env:
        result = env.reset(seed=7)
        while not result.done:
            result = env.step(CLASSAction(message=bot(result.observation.text)))
    assert result.observation.statistics
    assert not result.observation.forfeited
'''
_INIT = '''"""NAME: a game of SRL for OpenEnv."""

from .client import CLASSAction, CLASSEnv, CLASSObservation

__all__ = ["CLASSAction", "CLASSEnv", "CLASSObservation"]
'''


def openenv_files(name: str, title: str) -> Mapping[str, str]:
    """Path -> text.

    Args:
        name: of the package, as in ``import NAME``.
        title: what its classes' names begin with.
    """
    examples = package_files("srl_agents.cli.scaffold") / "examples"
    app = (examples / "openenv_app.py").read_text(encoding="utf-8")
    client = (examples / "openenv_client.py").read_text(encoding="utf-8")
    texts = {
        "pyproject.toml": _PROJECT,
        "openenv.yaml": _MANIFEST,
        "README.md": _PAGE,
        "__init__.py": _INIT,
        "server/Dockerfile": _DOCKERFILE,
        f"tests/test_{name}.py": _TEST,
    }
    words = {
        "DISTRIBUTION": f"{DISTRIBUTION}[openenv]",
        "PROJECT": name.replace("_", "-"),
        "CLASS": title,
        "NAME": name,
    }
    for word, value in words.items():
        texts = {path: text.replace(word, value) for path, text in texts.items()}
    return {
        **texts,
        "client.py": client.replace("Example", title),
        "server/__init__.py": f'"""{name}: its server."""\n',
        "server/app.py": app,
    }
