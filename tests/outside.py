"""Install the wheel outside of the repository, and run there what the README and the notebooks show.

    python -m tests.outside [--keep FOLDER]

Builds a source distribution, a wheel from it, and a virtual environment with an empty HOME in a folder of its
own. There run the README's board, with the extra ``cli`` alone; then, with ``train``, its Python (a game, a
training of three updates) and every notebook.
A few minutes; the first command that fails ends it, with its output.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
_SDIST = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"


def programs() -> list[str]:
    """The README's blocks of Python."""
    text = README.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def shell_lines() -> list[list[str]]:
    """The README's commands, each as its words."""
    text = README.read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [line.split() for line in "".join(blocks).splitlines()]


def build(work: Path) -> Path:
    """The wheel, built from the source distribution.

    Raises:
        CalledProcessError: one of them cannot be built.
    """
    dist = work / "dist"
    dist.mkdir()
    _run(sys.executable, "-c", _SDIST, str(dist), cwd=ROOT, quiet=True)
    (source,) = dist.glob("*.tar.gz")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    _run(*pip, "--wheel-dir", str(dist), str(source), cwd=work)
    (wheel,) = dist.glob("*.whl")
    return wheel


def boards(python: Path) -> Iterator[Sequence[str]]:
    """Commands of the README, which need no model."""
    for words in shell_lines():
        yield (str(python.with_name(words[0])), *words[1:])


def trainings(python: Path, work: Path) -> Iterator[Sequence[str]]:
    """The README's Python, and the notebooks."""
    for number, program in enumerate(programs()):
        path = work / f"readme_{number}.py"
        path.write_text(program, encoding="utf-8")
        yield (str(python), str(path))
    for notebook in NOTEBOOKS:
        shutil.copy(notebook, work)
        yield (str(python.with_name("jupyter-execute")), "--timeout=900", notebook.name)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if all ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--keep", type=Path, help="a new folder that stays, in the place of a temporary one"
    )
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        work = options.keep or Path(temporary)
        (work / "home").mkdir(parents=True)
        wheel = build(work)
        _run(sys.executable, "-m", "venv", str(work / "venv"), cwd=work)
        python = work / "venv/bin/python"
        pip = (str(python), "-m", "pip", "install", "--quiet", "--progress-bar", "off")
        pinned = ("--constraint", str(ROOT / "constraints.txt"))
        parts = {
            ("cli",): boards(python),
            ("train", "nbclient", "ipykernel"): trainings(python, work),
        }
        for (extra, *others), steps in parts.items():
            _run(*pip, *pinned, f"{wheel}[{extra}]", *others, cwd=work)
            for step in steps:
                print("$", *step, flush=True)
                _run(*step, cwd=work, home=work / "home")
    return 0


def _run(*command: str, cwd: Path, home: Path | None = None, quiet: bool = False) -> None:
    own = {} if home is None else {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    output = subprocess.DEVNULL if quiet else None
    subprocess.run(
        command, cwd=cwd, env=environ | own, stdin=subprocess.DEVNULL, stdout=output, check=True
    )


if __name__ == "__main__":
    sys.exit(main())
