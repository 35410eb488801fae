import json
import subprocess
import sys

HEAVY = ("torch", "transformers", "trl", "peft", "vllm", "gymnasium", "pettingzoo", "numpy.testing")

PROGRAM = f"""
import json, sys, time
start = time.process_time()
import srl_envs
spent_s = time.process_time() - start
listed = srl_envs.list_envs()
print(json.dumps([spent_s, listed, [name for name in {HEAVY} if name in sys.modules]]))
"""


def fresh() -> tuple[float, list[str], list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    spent_s, listed, heavy = json.loads(done.stdout)
    return spent_s, listed, heavy


def test_import_is_light_and_listing_loads_no_game() -> None:
    runs = [fresh() for _ in range(3)]
    assert {"connect_four-v0", "math_duel-v0", "code_duel-v0"} <= set(runs[0][1])
    assert runs[0][2] == []
    assert min(spent_s for spent_s, _, _ in runs) < 0.5


def test_making_a_game_needs_no_tensor_library() -> None:
    program = (
        "import sys, srl_envs; srl_envs.make('connect_four-v0').reset(seed=0); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'openai')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
