import json
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import srl_envs
from srl_envs.errors import ConfigError
from srl_envs.gymnasium_ids import gymnasium_id

BUILT_IN = [env_id for env_id in srl_envs.list_envs() if "/" not in env_id]

GAME = "srl_envs.families.board.connect_four:ConnectFour"
PROGRAM = """
import json, sys
import {first}
before = "gymnasium" in sys.modules
import {second}
games = [m for m in sys.modules if m.startswith("srl_envs.families.")]
print(json.dumps([before, games, sorted(n for n in gymnasium.registry if n.startswith("srl_envs/"))]))
"""


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registrations of a test end with it."""
    monkeypatch.setattr(srl_envs.registry, "_SPECS", dict(srl_envs.registry._SPECS))


@pytest.mark.parametrize("first", ["srl_envs", "gymnasium"])
def test_every_game_is_there_in_either_order_of_import_and_none_is_loaded(first: str) -> None:
    (second,) = {"srl_envs", "gymnasium"} - {first}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(first=first, second=second)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, games, names = json.loads(done.stdout)
    assert before == (first == "gymnasium")
    assert games == []
    assert names == [f"srl_envs/{env_id}" for env_id in BUILT_IN]


@pytest.mark.parametrize(
    "env_id",
    [
        pytest.param(e, marks=[pytest.mark.slow] if srl_envs.registry.spec(e).runs_programs else [])
        for e in BUILT_IN
    ],
)
def test_gymnasium_makes_and_accepts_every_game_without_a_warning(
    env_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"srl_envs/{env_id}")
        env.reset(seed=0)
        env.step(env.action_space.sample())
        check_env(env.unwrapped)
        env.close()
    assert gymnasium.spec(f"srl_envs/{env_id}").kwargs == {"env_id": env_id}


def test_arguments_are_those_of_the_single_view() -> None:
    arguments: dict[str, Any] = {"seat": 1, "opponents": {0: "strong"}, "split": "eval", "rows": 5}
    made = gymnasium.make("srl_envs/connect_four-v0", render_mode="ansi", **arguments)
    ours = srl_envs.make_single("connect_four-v0", **arguments)
    assert made.reset(seed=3) == ours.reset(seed=3)
    over = False
    while not over:
        reply = ours.action_space.sample()
        result = made.step(reply)
        assert result == ours.step(reply)
        over = result[2]
    view: Any = made.unwrapped
    assert view.env.split == "eval"
    assert str(made.render()).splitlines()[5] == "1234567"
    with pytest.raises(ConfigError, match="Did you mean 'rows'"):
        gymnasium.make("srl_envs/connect_four-v0", row=5)


def test_vectors_hold_texts() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vec = gymnasium.make_vec("srl_envs/nim-v0", num_envs=3, opponents="random")
        seen, info = vec.reset(seed=0)
        moves = [legal[0] for legal in info["legal_actions"]]
        _, _, _, _, info = vec.step(tuple(moves))
        vec.close()
    assert len(set(seen["text"])) == 3
    assert [*info["invalid"]] == [None, None, None]


def test_environments_of_others_appear_under_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srl_envs.registry, "_SPECS", dict(srl_envs.registry._SPECS))
    assert gymnasium_id("code_duel-v0") == "srl_envs/code_duel-v0"
    assert gymnasium_id("my.package/game-v2") == "my-package/game-v2"
    srl_envs.register(id="my.package/four-v2", entry_point=GAME, mode="competitive")
    srl_envs.register(id="fourth-v0", entry_point=GAME, mode="competitive")
    for name in ("my-package/four-v2", "srl_envs/fourth-v0"):
        env = gymnasium.make(name, opponents={})
        assert "can_act" in env.reset(seed=0)[0]
        env.close()


def test_the_name_that_gymnasium_puts_in_front_is_taken() -> None:
    with pytest.raises(ConfigError, match="leave it out"):
        srl_envs.register(id="srl_envs/four-v0", entry_point=GAME, mode="competitive")
