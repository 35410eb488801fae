"""`python -m tests.documented_code [MYPY_OPTION ...]`: types of the Python in the README and the guides.

The blocks of a page become one module, in their order. A fragment of a class, which is indented, becomes part
of a class that derives from the page's last one; a block that begins with a docstring is a file of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/*.md", "docs/guides/*.md")


def modules(text: str) -> Iterator[str]:
    """Modules that the Python blocks of a page make up."""
    page: list[str] = []
    blocks: list[str] = re.findall(
        r"^```python\b[^\n]*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    )
    for number, block in enumerate(blocks):
        if block.startswith('"""'):
            yield block
        elif block.startswith(" "):
            base = re.findall(r"^class (\w+)", "\n".join(page), flags=re.MULTILINE)[-1]
            page.append(f"class Fragment{number}({base}):\n{block}")
        else:
            page.append(block)
    if page:
        yield "\n\n".join(page)


def write(folder: Path, root: Path = ROOT) -> list[Path]:
    """Write the modules of all pages to a folder; returns their files."""
    files = []
    for pattern in PAGES:
        for path in sorted(root.glob(pattern)):
            stem = re.sub(r"\W", "_", path.relative_to(root).with_suffix("").as_posix())
            for number, module in enumerate(modules(path.read_text(encoding="utf-8"))):
                files.append(folder / f"{stem}_{number}.py")
                files[-1].write_text(module, encoding="utf-8")
    return files


def check(options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run mypy, by the project's strict settings, over all pages at once."""
    with tempfile.TemporaryDirectory() as folder:
        files = map(str, write(Path(folder)))
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            "pyproject.toml",
            *options,
            *files,
        ]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    done = check(sys.argv[1:])
    print(done.stdout, done.stderr, sep="", end="")
    sys.exit(done.returncode)
