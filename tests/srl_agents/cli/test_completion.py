"""A shell completes every command and option."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from srl_agents.cli.main import main
from tests.browser import one_of


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


COMPLETE = """
source {script}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_shtab_srl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("srl pl", {"plan", "play"}),
        ("srl league st", {"status"}),
        ("srl train quickstart-t", {"quickstart-tiny"}),
        ("srl play connect_", {"connect_four-v0"}),
        ("srl leaderboard verify --lev", {"--level"}),
        ("srl plan kv --tr", {"--trace"}),
        ("srl completion z", {"zsh"}),
        ("srl docs tut", {"tutorial"}),
        ("srl docs srl_envs.make_si", {"srl_envs.make_single"}),
        ("srl play nim-v0 str", {"strong"}),
        ("srl play nim-v0 strong hu", {"human"}),
        ("srl play connect_four-v0 connect_", set()),
        ("srl plan quickstart-tiny --device a100", {"a100-40gb", "a100-80gb"}),
        ("srl plan my_recipe.yaml --device a100", {"a100-40gb", "a100-80gb"}),
        ("srl plan kv --device a1", {"a100"}),
        ("srl plan quickstart-t", {"quickstart-tiny"}),
    ],
)
def test_bash_completes(
    words: str, found: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "srl.bash"
    file.write_text(script("bash", capsys))
    code = COMPLETE.format(script=file, words=words)
    done = subprocess.run([one_of("bash"), "-c", code], capture_output=True, text=True, check=True)
    assert {line.strip() for line in done.stdout.splitlines() if line.strip()} == found


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells_have_a_script_with_every_command(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)
    assert all(word in text for word in ("crossplay", "quickstart-tiny", "episodes"))
