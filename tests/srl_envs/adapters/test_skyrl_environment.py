"""Our environments in SkyRL: its registry, its data set and its generator, with bots in place of a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "skyrl_gym", reason="skyrl-gym 0.4 is not installed: `make doors` makes an environment with it"
)

import skyrl_gym

import srl_envs
from srl_envs.adapters import skyrl as door
from srl_envs.errors import ConfigError, UnknownEnvironmentError
from srl_envs.views.single import GameSingle

pytestmark = pytest.mark.filterwarnings("ignore")  # of SkyRL and its dependencies

ENV = "connect_four-v0"


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(skyrl_gym.envs.registration.registry)
    yield
    skyrl_gym.envs.registration.registry.clear()
    skyrl_gym.envs.registration.registry.update(before)


def play(game: Any, policy: Callable[[str], str], prompt: Any) -> tuple[list[float], list[str]]:
    messages, _ = game.init(prompt)
    rewards, texts = [], [messages[-1]["content"]]
    while True:
        out = game.step(policy(texts[-1]))
        rewards.append(out["reward"])
        if out["done"]:
            assert out["observations"] == []
            return rewards, texts
        texts.append(out["observations"][0]["content"])


def test_an_episode_pays_and_shows_what_the_single_view_does() -> None:
    name = door.register(ENV, opponents={1: "middle"})
    (row, other) = door.rows(name, [3, 4], system="Play well.")
    assert row["prompt"][0] == {"role": "system", "content": "Play well."}
    assert (row["env_class"], row["seed"]) == ("srl/connect_four-v0", 3)
    game = skyrl_gym.make(name, env_config={}, extras={**row, "max_turns": 99})
    rewards, texts = play(game, srl_envs.make_bot(ENV, "strong", seed=0), row["prompt"])
    view = GameSingle(srl_envs.make(ENV), opponents={1: "middle"})
    policy = srl_envs.make_bot(ENV, "strong", seed=0)
    seen, _ = view.reset(seed=3, options={"split": "train"})
    assert row["prompt"][-1]["content"] == texts[0] == seen["text"]
    native, over = list[float](), False
    while not over:
        assert seen["text"] == texts[len(native)]
        seen, reward, ended, cut, _ = view.step(policy(seen["text"]))
        native.append(reward)
        over = ended or cut
    assert rewards == native
    assert game.get_metrics()["turns"] == len(rewards)
    assert game.get_metrics()["forfeited"] == 0.0
    assert other["seed"] == 4


def test_a_conversation_at_its_limit_forfeits_and_one_reply_is_refused() -> None:
    name = door.register(ENV, opponents="random")
    (row,) = door.rows(name, [0])
    game = skyrl_gym.make(name, extras={**row, "max_turns": 2})
    rewards, _ = play(game, srl_envs.make_bot(ENV, "strong", seed=0), row["prompt"])
    assert rewards == [0.0, -1.0]
    assert game.get_metrics()["forfeited"] == 1.0
    game = skyrl_gym.make(name, extras={**row, "max_turns": 1})
    with pytest.raises(ConfigError, match=r"generator\.max_turns=1"):
        play(game, srl_envs.make_bot(ENV, "strong", seed=0), row["prompt"])


def test_an_opponent_may_be_any_callable_and_every_episode_has_its_own() -> None:
    class Rival:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def __call__(self, text: str) -> str:
            assert len(self.seen) < 30
            self.seen.append(text)
            return srl_envs.make_bot(ENV, "middle", seed=len(self.seen))(text)

    rival = Rival()
    name = door.register(ENV, seat=1, opponents={0: rival})
    (row,) = door.rows(name, [5])
    for _ in range(2):
        game = skyrl_gym.make(name, extras={**row, "max_turns": 99})
        assert play(game, srl_envs.make_bot(ENV, "strong", seed=0), row["prompt"])[0][-1]
    assert rival.seen == []


def test_wrong_use_fails_where_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(UnknownEnvironmentError):
        door.register("connect_fou-v0")
    with pytest.raises(ConfigError, match="seats 0 to 1"):
        door.register(ENV, seat=2)
    name = door.register(ENV)
    with pytest.raises(ConfigError, match="another name="):
        door.register(ENV)
    with pytest.raises(ConfigError, match="no column `seed`"):
        skyrl_gym.make(name, extras={"max_turns": 5})
    with pytest.raises(ConfigError, match="what `register` returned"):
        door.rows("gsm8k", [1])
    with pytest.raises(ConfigError, match="no seeds"):
        door.rows(name, [])
    with pytest.raises(ConfigError, match=r"call it train\.jsonl"):
        door.write_rows(door.rows(name, [1]), tmp_path / "train.parquet")


def engine_of(tokenizer: Any, policies: Callable[[], Callable[[str], str]]) -> Any:
    """Where SkyRL has vLLM: whole token rows come in, a bot's reply goes out as tokens."""
    from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface

    class Engine(InferenceEngineInterface):
        model_name = "bots"

        def __init__(self) -> None:
            self.seats: dict[str, Callable[[str], str]] = {}
            self.ended: list[str] = []

        async def generate(self, request: Any, model: str | None = None) -> Any:
            (ids,), (session,) = request["prompt_token_ids"], request["session_ids"]
            text = tokenizer.decode(ids).rpartition("<|im_start|>user\n")[2].partition("<|im_end|>")
            reply = self.seats.setdefault(session, policies())(text[0])
            ids = [*tokenizer.encode(reply), tokenizer.eos_token_id]
            return {"responses": [reply], "response_ids": [ids], "stop_reasons": ["stop"]}

        async def finish_session(self, session_id: str) -> None:
            self.ended.append(session_id)

    Engine.__abstractmethods__ = frozenset()  # what SkyRL's generator does not call
    return Engine()


def test_skyrls_generator_plays_the_rows_of_the_file(tmp_path: Path) -> None:
    pytest.importorskip("skyrl", reason="the generator comes with skyrl 0.3")
    from skyrl.train.config import GeneratorConfig, SkyRLGymConfig
    from skyrl.train.dataset.dataset import PromptDataset
    from skyrl.train.generators.base import TrajectoryID
    from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

    from srl_agents.models.sources.random_model import random_tokenizer

    name = door.register(ENV, opponents={1: "random"})
    path = tmp_path / "train.jsonl"
    assert door.write_rows(door.rows(name, range(3)), path) == 3
    tokenizer = random_tokenizer()
    data = PromptDataset([str(path)], tokenizer, max_prompt_length=4096, num_workers=1)
    batch = data.collate_fn([data[i] for i in range(3)])
    engine = engine_of(tokenizer, lambda: srl_envs.make_bot(ENV, "strong", seed=0))
    config = GeneratorConfig(max_turns=50, max_input_length=100_000)
    generator = SkyRLGymGenerator(config, SkyRLGymConfig(), engine, tokenizer)
    out = asyncio.run(
        generator.generate(
            {
                "prompts": [row["prompt"] for row in batch],
                "env_classes": [row["env_class"] for row in batch],
                "env_extras": [row["env_extras"] for row in batch],
                "sampling_params": None,
                "trajectory_ids": [TrajectoryID(row["uid"], 0) for row in batch],
                "batch_metadata": None,
            }
        )
    )
    assert len(engine.ended) == 3
    for number, (ids, rewards, mask) in enumerate(
        zip(out["response_ids"], out["rewards"], out["loss_masks"], strict=True)
    ):
        view = GameSingle(srl_envs.make(ENV), opponents={1: "random"})
        policy, replies = srl_envs.make_bot(ENV, "strong", seed=0), []
        seen, _ = view.reset(seed=number, options={"split": "train"})
        paid, over = 0.0, False
        while not over:
            replies.append(policy(seen["text"]))
            seen, reward, over, _, _ = view.step(replies[-1])
            paid += reward
        assert sum(rewards) == paid == 1.0
        assert rewards[-1] == 1.0
        learned = tokenizer.decode([i for i, learn in zip(ids, mask, strict=True) if learn])
        assert learned == "".join(reply + "<|im_end|>" for reply in replies)
