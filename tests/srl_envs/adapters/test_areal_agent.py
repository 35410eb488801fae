"""Our environments under AReaL: its proxy and its agent workflow, with bots in place of an engine."""

from __future__ import annotations

import asyncio
import socket
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.adapters.areal import Completion, SRLAgent, handed_in, rows
from srl_envs.errors import ConfigError, UnknownEnvironmentError, UnknownPolicyError

pytestmark = pytest.mark.filterwarnings("ignore")  # of AReaL and its dependencies

ENV = "connect_four-v0"
BOT = "strong"
KEY = "key-of-this-test"
ENGINE = '''
"""Where AReaL has SGLang or vLLM: token rows come in, a bot's reply goes out as tokens."""
import zlib
import srl_envs
from areal.api import ModelResponse

class Bots:
    def __init__(self, config, env_id, bot):
        self.config, self.env_id, self.bot = config, env_id, bot

    def initialize(self):
        pass

    async def agenerate(self, request):
        tokenizer = request.tokenizer
        text = tokenizer.decode(request.input_ids).rpartition("<|im_start|>user\\n")[2]
        text = text.partition("<|im_end|>")[0]
        if self.bot == "broken":
            raise RuntimeError("the engine is gone")
        seed = zlib.crc32(text.encode())
        ids = tokenizer.encode(srl_envs.make_bot(self.env_id, self.bot, seed=seed)(text))
        ids.append(tokenizer.eos_token_id)
        return ModelResponse(
            input_tokens=request.input_ids, output_tokens=ids, output_logprobs=[-0.5] * len(ids),
            output_versions=[3] * len(ids), tokenizer=tokenizer,
        )
'''


def bot(env_id: str, text: str) -> str:
    return srl_envs.make_bot(env_id, BOT, seed=zlib.crc32(text.encode()))(text)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(-1, 1)), max_size=12),
    st.floats(0.1, 1),
    st.booleans(),
)
def test_what_areal_adds_up_is_each_seats_own_return(
    paid: list[tuple[int, float]], discount: float, whole: bool
) -> None:
    said = [Completion(str(number), seat, pay) for number, (seat, pay) in enumerate(paid)]
    rewards = handed_in(said, discount=discount, whole=whole)
    assert list(rewards) == [one.id for one in said]
    total = 0.0
    for number in reversed(range(len(said))):  # InteractionCache.apply_reward_discount
        total = total * discount + rewards[str(number)]
        own = [one for one in said[number:] if one.seat == said[number].seat]
        due = sum(one.paid * discount**turn for turn, one in enumerate(own))
        if whole and len(own) == 1:
            due = sum(one.paid for one in said if one.seat == said[number].seat)
        assert total == pytest.approx(due, abs=1e-9)


def test_wrong_use_fails_where_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for wrong, reason in (
        ({"opponents": {0: BOT, 1: BOT}}, "leave one to AReaL"),
        ({"opponents": {2: BOT}}, "seats 0 to 1"),
        ({"turn_discount": 0}, "turn_discount=0"),
        ({"export_style": "leaves"}, "'individual' or 'concat'"),
    ):
        with pytest.raises(ConfigError, match=reason):
            SRLAgent(ENV, **wrong)
    with pytest.raises(UnknownPolicyError):
        SRLAgent(ENV, opponents={1: "strng"})
    with pytest.raises(UnknownEnvironmentError):
        SRLAgent("connect_fou-v0")
    with pytest.raises(ConfigError, match="no column `seed`"):
        asyncio.run(SRLAgent(ENV).run({"messages": []}))
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL"):
        asyncio.run(SRLAgent(ENV).run(rows([1])[0]))


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Starts AReaL's proxy server around bots of one environment: ``proxy(env_id, **of its agent)``."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    pytest.importorskip("areal", reason="areal 1.0 is not installed: `make doors` installs it")
    import requests
    import uvicorn
    from areal.api.cli_args import AgentConfig, InferenceEngineConfig
    from areal.experimental.openai.proxy import proxy_rollout_server as server
    from areal.experimental.openai.proxy.workflow import OpenAIProxyWorkflow
    from areal.infra.rpc.serialization import serialize_value

    from srl_agents.models.sources.random_model import build

    folder = build(tmp_path / "model")
    (tmp_path / "engine_of_bots.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(server, "_server_host", "127.0.0.1")
    port = socket.socket()
    port.bind(("127.0.0.1", 0))
    port.listen()  # requests wait until the server accepts them
    running = uvicorn.Server(uvicorn.Config(server.app, log_level="error"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [port]})
    thread.start()
    url = f"http://127.0.0.1:{port.getsockname()[1]}"

    def start(
        env_id: str, agent: SRLAgent, *, bots: str = BOT, mode: str = "inline", **of: Any
    ) -> Any:
        settings = AgentConfig(agent_cls_path=SRLAgent.__module__, admin_api_key=KEY, **of)
        config = InferenceEngineConfig(tokenizer_path=str(folder), agent=settings)
        asked = {"config": config, "env_id": env_id, "bot": bots}
        made = {"engine": "engine_of_bots.Bots", "init_kwargs": serialize_value(asked)}
        monkeypatch.setattr(server, "_engine", None)
        for route, body in (("create_engine", made), ("call", {"method": "initialize"})):
            requests.post(f"{url}/{route}", json=body, timeout=60).raise_for_status()
        workflow = OpenAIProxyWorkflow(
            mode=mode, agent=agent, proxy_addr=url, admin_api_key=KEY,
            discount=settings.turn_discount, export_style=settings.export_style,
        )  # fmt: skip
        return lambda row: asyncio.run(workflow.arun_episode(None, row))

    yield start
    running.should_exit = True
    thread.join()


def native(env_id: str, seed: int, learners: set[str]) -> list[tuple[str, str, float]]:
    """Role, reply and what it was paid until its seat's next one, in the order of asking."""
    env: Any = srl_envs.make(env_id)
    said: list[Any] = []
    observations, _ = env.reset(seed=seed)
    while env.agents:
        texts = {r: seen["text"] for r, seen in observations.items() if seen["can_act"]}
        replies = {r: bot(env_id, text) for r, text in texts.items()}
        said += [[r, reply, 0.0] for r, reply in replies.items() if r in learners]
        observations, _, _, _, infos = env.step(replies)
        for role in learners:
            own = [one for one in said if one[0] == role]
            if own:
                own[-1][2] += sum(infos[role]["reward_components"].values())
    return [tuple(one) for one in said]


def replies_of(tokenizer: Any, interaction: Any) -> list[str]:
    """The text of the tokens that learn."""
    tensors = interaction.to_tensor_dict()
    ids, mask = tensors["input_ids"][0].tolist(), tensors["loss_mask"][0].tolist()
    learned = tokenizer.decode([i for i, learn in zip(ids, mask, strict=True) if learn])
    return str(learned).split("<|im_end|>")[:-1]


def test_every_seat_learns_from_its_own_pay(proxy: Any) -> None:
    from srl_agents.models.sources.random_model import random_tokenizer

    play = proxy(ENV, SRLAgent(ENV, turn_discount=0.9), turn_discount=0.9)
    made = list(play(rows([4])[0]).values())
    said = native(ENV, 4, {"player_0", "player_1"})
    assert [replies_of(random_tokenizer(), one) for one in made] == [
        [reply] for _, reply, _ in said
    ]
    for number, one in enumerate(made):
        own = [pay for role, _, pay in said[number:] if role == said[number][0]]
        assert one.reward == pytest.approx(sum(pay * 0.9**turn for turn, pay in enumerate(own)))
    assert {round(abs(one.reward), 3) for one in made[-2:]} == {1.0}
    assert made[-1].reward == pytest.approx(-made[-2].reward)


def test_whole_conversations_keep_their_turns_and_all_their_pay(proxy: Any) -> None:
    from srl_agents.models.sources.random_model import random_tokenizer

    game = "iterated_dilemma-v0"
    play = proxy(
        game, SRLAgent(game, export_style="concat"), export_style="concat",
        chat_template_type="concat",
    )  # fmt: skip
    made = list(play(rows([2])[0]).values())
    said = native(game, 2, {"player_0", "player_1"})
    assert len(made) == 2
    for role, one in zip(("player_0", "player_1"), made, strict=True):
        own = [(reply, pay) for other, reply, pay in said if other == role]
        assert replies_of(random_tokenizer(), one) == [reply for reply, _ in own]
        assert one.reward == pytest.approx(sum(pay for _, pay in own))


def test_one_seat_against_an_opponent_in_areals_subprocess(proxy: Any) -> None:
    agent = SRLAgent(ENV, opponents={"1": "random"}, options={"invalid": "forfeit"})  # type: ignore[dict-item]
    made = list(proxy(ENV, agent, mode="subproc")(rows([6])[0]).values())
    assert [one.reward for one in made] == [1.0] * len(made)
    assert len({one.to_tensor_dict()["input_ids"].shape[1] for one in made}) > 1


def test_an_engine_that_fails_voids_the_episode(proxy: Any) -> None:
    with pytest.raises(Exception, match="the engine is gone"):
        proxy(ENV, SRLAgent(ENV), bots="broken")(rows([1])[0])
