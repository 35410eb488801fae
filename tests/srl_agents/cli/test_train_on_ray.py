"""`srl train --ray`, as far as it goes without a cluster."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.recipes.loading import SHIPPED, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.cluster.address import on_ray, require_answer
from srl_envs.errors import ConfigError


def test_without_ray_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    run = tmp_path / "run"
    assert main(["train", "quickstart-tiny", "--ray", "auto", "--out", str(run)]) == 2
    assert capsys.readouterr().err == (
        'srl train: needs ray, which is not installed: pip install "srl-envs[ray]"\n'
    )
    assert not run.exists()


def test_a_recipe_gets_what_workers_need_and_keeps_what_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    turns = SHIPPED / "quickstart-tiny.yaml"
    added = on_ray(load(LeagueRecipe, turns))
    assert added == [
        "placement=disaggregated",
        "asynchronous.ahead=0",
        "asynchronous.part_matches=16",
        "transport.kind=files",
    ]
    recipe = load(LeagueRecipe, turns, added)
    assert recipe.asynchronous is not None
    assert (recipe.asynchronous.ahead, recipe.asynchronous.part_matches) == (0, 16)
    assert on_ray(recipe) == []
    beside = SHIPPED / "quickstart-async-tiny.yaml"
    assert on_ray(load(LeagueRecipe, beside)) == [
        "placement=disaggregated",
        "asynchronous.part_matches=16",
    ]
    switching = ["asynchronous.in_flight=switch", "rollout.order=free"]
    with pytest.raises(ConfigError, match="in_flight='switch'"):
        on_ray(load(LeagueRecipe, beside, switching))
    for wrong in ("workers=0", "patience_s=0", "cpus=-1", "cpus=0"):
        with pytest.raises(ConfigError, match=f"ray.{wrong.partition('=')[0]}"):
            load(LeagueRecipe, turns, [f"ray.{wrong}"])


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:1", "no cluster answers"),
        ("127.0.0.1", "HOST:PORT"),
        ("host:99999", "HOST:PORT"),
        ("", "HOST:PORT"),
    ],
)
def test_an_address_at_which_nobody_answers_is_the_users_mistake(address: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        require_answer(address)


@pytest.mark.parametrize(
    ("answer", "words"), [(b"HTTP/1.1 400\r\n", "something else"), (b"", "timed out")]
)
def test_what_listens_and_is_no_cluster_is_said(
    answer: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "srl_agents.training.cluster.address._ANSWER_S", 0.3 if not answer else 30.0
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            link, _ = listener.accept()
            link.sendall(answer)
            link.recv(1000)
            ended.wait()
            link.close()

        ended = threading.Event()
        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        try:
            with pytest.raises(ConfigError, match=words):
                require_answer(f"127.0.0.1:{listener.getsockname()[1]}")
        finally:
            ended.set()
            thread.join()
