"""Types that a user's type checker sees for the public names."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import srl_envs
env = srl_envs.make("nim-v0", heaps=3)
reveal_type(env)
reveal_type(env.reset(seed=0)[0])
reveal_type(srl_envs.make_aec("nim-v0"))
reveal_type(srl_envs.make_single("nim-v0", opponents="strong"))
reveal_type(srl_envs.make_vec("nim-v0", 2))
reveal_type(srl_envs.make_bot("nim-v0", "strong")("text"))
reveal_type(srl_envs.play("nim-v0", {0: "strong", 1: lambda text: srl_envs.action(text)}))
srl_envs.register(id="a/b-v0", entry_point="a:B", mode="versus")
srl_envs.make_single("nim-v0", seat="player_0")
srl_envs.play(env, {"player_0": "strong"})
"""
EXPECTED = [
    "srl_envs.parallel.GameEnv",
    "dict[str, dict[str, Any]]",
    "srl_envs.views.aec.GameAEC",
    "srl_envs.views.single.GameSingle",
    "srl_envs.vector.vector_env.VectorEnv",
    "str",
    "srl_envs.api.episode.Transcript",
]
REFUSED = ('"mode"', '"seat"', '"Dict entry 0"|Dict entry 0')


@pytest.mark.slow  # the type checker reads the package
def test_a_type_checker_knows_what_is_made_and_refuses_what_fails(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(program)],  # with what `make types` has read
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert [text.replace("builtins.", "") for text in revealed] == EXPECTED, done.stdout
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == len(REFUSED), done.stdout
    assert all(re.search(hint, line) for hint, line in zip(REFUSED, errors, strict=True)), errors
