"""Games of several turns in veRL: its own workers run our agent loop, with bots in place of an engine."""

from __future__ import annotations

import asyncio
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "verl", reason="verl 0.9 is not installed: `make doors` makes an environment with it"
)
import srl_envs
from srl_agents.models.sources.random_model import build, random_tokenizer
from srl_envs.adapters import verl as door
from srl_envs.errors import ConfigError, NeighbourError
from tests.srl_envs.adapters import neighbours_guide

pytestmark = pytest.mark.filterwarnings("ignore")  # of veRL and its dependencies

ENV = "connect_four-v0"
Say = Callable[[str, str], str]
"""Name of the request and what the seat sees -> what the engine writes."""


def strong(_request: str, text: str) -> str:
    return srl_envs.make_bot(ENV, "strong", seed=zlib.crc32(text.encode()))(text)


class Engine:
    """Where veRL has its client of vLLM: token rows come in, `say` replies, a token per byte."""

    def __init__(self, say: Say = strong) -> None:
        self.say, self.tokenizer = say, random_tokenizer()
        self.requests: list[tuple[str, list[int], dict[str, Any], list[int]]] = []

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        tokenizer = self.tokenizer
        seen = tokenizer.decode(prompt_ids).rpartition("<|im_start|>user\n")[2]
        reply = self.say(request_id, seen.partition("<|im_end|>")[0])
        if reply == "(aborted)":
            return TokenOutput(token_ids=[], stop_reason="aborted")
        ids = [i for letter in reply for i in tokenizer.encode(letter)]  # not as it would encode it
        ids = [*ids, tokenizer.eos_token_id][: sampling_params["max_tokens"]] if reply else []
        self.requests.append((request_id, prompt_ids, sampling_params, ids))
        number = len(self.requests)
        return TokenOutput(
            token_ids=ids,
            log_probs=[-float(number)] * len(ids),
            stop_reason="completed",
            num_preempted=1,
            extra_fields={"min_global_steps": number, "max_global_steps": number},
        )


LOOP = "- name: srl_game\n  _target_: srl_envs.adapters.verl_loop.GameLoop\n"


def settings(folder: Path, *overrides: str, yaml: str = LOOP) -> Any:
    """veRL's own configuration, as ``verl.trainer.main_ppo`` composes it."""
    from hydra import compose, initialize_config_module

    model = build(folder / "model")
    (folder / "srl_game.yaml").write_text(yaml)
    rollout = "actor_rollout_ref.rollout"
    given = [
        f"actor_rollout_ref.model.path={model}", f"{rollout}.name=vllm", "trainer.device=cpu",
        f"{rollout}.agent.agent_loop_config_path={folder / 'srl_game.yaml'}",
        "data.max_prompt_length=1000", "data.max_response_length=12000", *overrides,
    ]  # fmt: skip
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=given)


def batch_of(rows: list[dict[str, Any]], folder: Path, config: Any) -> dict[str, Any]:
    """As veRL's loader gives them, from the file."""
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    path = folder / "train.parquet"
    door.write_rows(rows, path)
    dataset = RLHFDataset([str(path)], random_tokenizer(), config.data)
    return dict(collate_fn([dataset[number] for number in range(len(rows))]))


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Any]:
    """``play(engine, rows, *overrides, yaml=of the loop)``: the batch of veRL's worker."""
    from verl import DataProto
    from verl.experimental.agent_loop import AgentLoopWorker

    class Worker(AgentLoopWorker):
        async def _agent_loop_postprocess(self, output: Any, *args: Any, **kwargs: Any) -> Any:
            length = len(output.response_ids)
            assert length == len(output.response_mask)
            assert length == len(output.response_logprobs or output.response_ids)
            as_in_the_queue = output.as_dict()["rm_scores"]
            assert float(as_in_the_queue[-1]) == pytest.approx(output.reward_score)
            return await super()._agent_loop_postprocess(output, *args, **kwargs)

    def played(
        engine: Engine, rows: list[dict[str, Any]], *overrides: str, yaml: str = LOOP
    ) -> Any:
        config = settings(tmp_path, *overrides, yaml=yaml)
        worker = Worker(config, engine)
        data = DataProto.from_single_dict(batch_of(rows, tmp_path, config))
        return asyncio.run(worker.generate_sequences(data))

    return played


def rows_of(*seeds: int, **given: Any) -> list[dict[str, Any]]:
    return door.rows(ENV, seeds, **{"agent_loop": True, "opponents": {1: "middle"}, **given})


def row_of(data: Any, number: int) -> tuple[list[int], list[int], list[int], list[float], int]:
    """Prompt, response, its mask and log-probabilities without padding, and where the reward lies."""
    batch = {name: data.batch[name][number] for name in data.batch.keys()}  # noqa: SIM118
    prompts = len(batch["prompts"])
    prompt = batch["prompts"][batch["attention_mask"][:prompts].bool()].tolist()
    length = int(batch["attention_mask"][prompts:].sum())
    cut = (batch[name][:length].tolist() for name in ("responses", "response_mask"))
    response, mask = cut
    assert int(batch["response_mask"].sum()) == sum(mask)
    (paid_at,) = batch["rm_scores"].nonzero()[:, 0].tolist() or [length - 1]
    return prompt, response, mask, batch["rollout_log_probs"][:length].tolist(), paid_at


def test_a_row_is_the_game_that_was_played_in_the_tokens_that_were_sampled(play: Any) -> None:
    engine = Engine()
    data = play(engine, rows_of(0, 1, system="Win."))
    for number in range(2):
        native = srl_envs.play(ENV, {0: lambda text: strong("", text), 1: "middle"}, seed=number)
        prompt, response, mask, logprobs, paid_at = row_of(data, number)
        own = [one for one in engine.requests if one[1][: len(prompt)] == prompt]
        if number == 0:
            assert engine.tokenizer.decode(prompt).startswith("<|im_start|>system\nWin.<|im_end|>")
        own = [one for one in own if one[0] == own[0][0]]
        assert [i for i, wrote in zip(response, mask, strict=True) if wrote] == [
            i for *_, ids in own for i in ids
        ]
        for request, ids, _, written in own:  # every reply stands behind what its request showed
            begin = len(ids) - len(prompt)
            assert prompt + response[:begin] == ids
            assert mask[begin : begin + len(written)] == [1] * len(written)
            assert request == own[0][0]
        said = [text for step in native.steps for seat, text in step.replies.items() if seat == 0]
        assert [engine.tokenizer.decode(ids[:-1]) for *_, ids in own] == said
        order = [engine.requests.index(one) + 1 for one in own]
        expected = iter(-float(n) for n, one in zip(order, own, strict=True) for _ in one[3])
        assert logprobs == [next(expected) if wrote else 0.0 for wrote in mask]
        assert paid_at == len(response) - 1
        assert mask[-1] == 1
        assert float(data.batch["rm_scores"][number].sum()) == native.rewards[0] == 1.0
        row = {name: values[number] for name, values in data.non_tensor_batch.items()}
        assert (row["score"], row["forfeited"], row["replies"]) == (1.0, 0.0, len(said))
        assert row["turn_scores"] == [0.0] * (len(said) - 1) + [1.0]
        assert (row["min_global_steps"], row["max_global_steps"]) == (order[0], order[-1])
        assert row["__num_turns__"] == 2 * len(said)
        assert data.meta_info["metrics"][number]["num_preempted"] == len(said)


def test_the_policy_plays_another_seat_from_a_conversation_of_its_own(play: Any) -> None:
    engine = Engine()
    data = play(engine, rows_of(4, opponents="policy", seat=1))
    talks = {request for request, *_ in engine.requests}
    assert {name[-2:] for name in talks} == {"-0", "-1"}
    native = srl_envs.play(ENV, {s: lambda text: strong("", text) for s in (0, 1)}, seed=4)
    _, response, mask, _, _ = row_of(data, 0)
    own = [ids for request, *_, ids in engine.requests if request.endswith("-1")]
    assert [i for i, wrote in zip(response, mask, strict=True) if wrote] == [
        i for ids in own for i in ids
    ]
    assert float(data.batch["rm_scores"].sum()) == native.rewards[1]


def test_replies_that_are_no_moves_are_charged_as_the_rules_say(play: Any) -> None:
    data = play(Engine(lambda *_: "I pass."), rows_of(2))
    native = srl_envs.play(ENV, {0: lambda _: "I pass.", 1: "middle"}, seed=2)
    assert float(data.batch["rm_scores"].sum()) == pytest.approx(native.rewards[0])
    assert data.non_tensor_batch["forfeited"].tolist() == [1.0]
    invalid = sum(step.invalid[0] is not None for step in native.steps)
    assert data.non_tensor_batch["invalid_replies"].tolist() == [float(invalid)]


def test_a_row_ends_with_the_last_token_that_was_written(play: Any) -> None:
    first: list[str] = []

    def once(_request: str, text: str) -> str:
        first.append(text)
        return strong("", text) if len(first) == 1 else ""

    engine = Engine(once)
    data = play(engine, rows_of(0))
    _, response, mask, _, paid_at = row_of(data, 0)
    assert len(engine.requests) > 2
    assert (response, mask) == (engine.requests[0][3], [1] * len(response))
    assert paid_at == len(response) - 1
    assert float(data.batch["rm_scores"].sum()) < -1.0


def test_log_probabilities_are_left_out_where_verl_wants_none(play: Any) -> None:
    data = play(Engine(), rows_of(0), "actor_rollout_ref.rollout.calculate_log_probs=False")
    assert "rollout_log_probs" not in data.batch
    assert float(data.batch["rm_scores"].sum()) == 1.0


@pytest.mark.parametrize(
    "limit", ["data.max_response_length=1200", "actor_rollout_ref.rollout.max_model_len=1700"]
)
def test_a_conversation_that_outgrows_its_room_forfeits_after_its_last_reply(
    play: Any, limit: str
) -> None:
    engine = Engine()
    data = play(engine, rows_of(1), limit)
    prompt, response, mask, _, paid_at = row_of(data, 0)
    assert 1 < len(engine.requests) < 5
    assert response[-len(engine.requests[-1][3]) :] == engine.requests[-1][3]
    assert (mask[-1], paid_at) == (1, len(response) - 1)
    assert float(data.batch["rm_scores"].sum()) == -1.0
    assert data.non_tensor_batch["forfeited"].tolist() == [1.0]
    room = 1200 if "response" in limit else 1700 - len(prompt)
    for _, ids, sampling, _ in engine.requests:
        assert sampling["max_tokens"] == room - (len(ids) - len(prompt))


def test_a_reply_may_use_all_the_room_and_no_more(play: Any) -> None:
    data = play(Engine(lambda *_: "x" * 5000), rows_of(1), "data.max_response_length=300")
    _, response, mask, _, _ = row_of(data, 0)
    assert (len(response), mask) == (300, [1] * 300)
    assert float(data.batch["rm_scores"].sum()) == pytest.approx(-1.05)


def test_a_reply_that_its_own_limit_cuts_is_closed_and_the_game_goes_on(play: Any) -> None:
    engine = Engine(lambda request, text: strong(request, text) + " because")
    data = play(engine, rows_of(1), yaml=f"{LOOP}  max_reply_tokens: 20\n")
    _, response, mask, logprobs, _ = row_of(data, 0)
    assert {len(ids) for *_, ids in engine.requests} == {20}
    end = engine.tokenizer.eos_token_id
    closed = [n for n in range(1, len(mask)) if mask[n - 1] and not mask[n]]
    assert len(closed) == len(engine.requests) - 1
    assert {response[n] for n in closed} == {end}
    assert {logprobs[n] for n in closed} == {0.0}
    text = engine.tokenizer.decode(response)
    assert text.count("<|im_end|>\n<|im_start|>user\n") == len(engine.requests) - 1
    assert "<|im_end|><|im_end|>" not in text
    assert float(data.batch["rm_scores"].sum()) == 1.0


def test_an_opponent_that_forfeits_first_leaves_a_row_that_teaches_nothing(play: Any) -> None:
    rows = rows_of(1, opponents="policy", seat=1, invalid="forfeit")
    data = play(Engine(lambda *_: "I pass."), rows)
    _, response, mask, _, _ = row_of(data, 0)
    assert (len(response), mask) == (1, [0])
    assert float(data.batch["rm_scores"].sum()) == 1.0


def test_the_guides_example_plays_its_rows(
    play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = neighbours_guide.GUIDE.with_name("other_trainers.md").read_text()
    (section,) = (part for part in page.split("\n## ") if part.startswith("Our games in veRL\n"))
    code, yaml = (section.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "yaml"))
    monkeypatch.chdir(tmp_path)
    rows = neighbours_guide.run(code)["games"]
    assert isinstance(rows, list)
    assert len(rows) == 1000
    data = play(Engine(), rows[:2], yaml=yaml)
    assert data.non_tensor_batch["score"].tolist() == [1.0, 1.0]


def test_failures_are_exceptions_that_say_what_to_do(play: Any) -> None:
    def gone(*_: str) -> str:
        raise RuntimeError("the engine is gone")

    foreign = rows_of(1)
    foreign[0]["reward_model"]["ground_truth"] = "42"
    for engine, rows, overrides, more, kind, reason in (
        (Engine(gone), rows_of(1), (), "", RuntimeError, "the engine is gone"),
        (Engine(lambda *_: "(aborted)"), rows_of(1), (), "", NeighbourError, "aborted"),
        (Engine(), foreign, (), "", ConfigError, "'42' names no episode"),
        (Engine(), rows_of(1), ("data.max_prompt_length=100",), "", ConfigError, "max_prompt_len"),
        (Engine(), rows_of(1), ("actor_rollout_ref.rollout.max_model_len=400",), "", ConfigError, "room"),
        (Engine(), rows_of(1), (), "  max_reply_tokens: 0\n", Exception, "max_reply_tokens=0"),
    ):  # fmt: skip
        with pytest.raises(kind, match=reason):
            play(engine, rows, *overrides, yaml=LOOP + more)


@pytest.mark.slow
def test_verls_trainer_finds_whole_groups_in_its_queue_and_failed_ones_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manager of ``verl.trainer.ppo.v1`` with Ray and TransferQueue, as its trainer calls it."""
    tq = pytest.importorskip("transfer_queue")
    import ray
    from verl.trainer.ppo.v1 import AgentLoopManagerTQ
    from verl.utils import tensordict_utils

    (tmp_path / "engine_of_bots.py").write_text(
        "from test_verl_loop import Engine, strong\n\n"
        "def say(request, text):\n"
        "    if 'player_1' in text:\n"
        "        raise RuntimeError('the engine is gone')\n"
        "    return strong(request, text)\n\n"
        "class Bots(Engine):\n"
        "    def __init__(self):\n"
        "        super().__init__(say)\n"
    )
    config = settings(
        tmp_path, "actor_rollout_ref.rollout.n=2", "actor_rollout_ref.rollout.agent.num_workers=1",
        "transfer_queue.enable=True",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    )  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    from engine_of_bots import Bots  # type: ignore[import-not-found]

    rows = [*rows_of(0, 1), *rows_of(0, opponents="policy", seat=1)]
    batch = batch_of(rows, tmp_path, config) | {"uid": np.array(["a", "b", "c"], dtype=object)}
    here, given = str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")
    paths = os.pathsep.join([str(tmp_path), here, *given.split(os.pathsep)])
    ray.init(
        num_cpus=8, include_dashboard=False, address="local", log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
    )  # fmt: skip
    try:
        tq.init(config.transfer_queue)
        manager = AgentLoopManagerTQ.create(config=config, llm_client=Bots())
        data = tensordict_utils.get_tensordict(batch)
        tensordict_utils.assign_non_tensor_data(data, "global_steps", 0)
        tags = [{"is_prompt": True, "status": "pending", "global_steps": 0}] * 3
        tq.kv_batch_put(keys=["a", "b", "c"], partition_id="train", tags=tags)
        manager.generate_sequences(data)
        status: dict[str, str] = {}
        deadline = time.monotonic() + 60
        while not status or not set(status.values()) <= {"finished", "failure"}:
            assert time.monotonic() < deadline, status
            time.sleep(0.2)
            kept = tq.kv_list("train")["train"]
            status = {uid: kept[uid]["status"] for uid in "abc"}
        assert status == {"a": "finished", "b": "finished", "c": "failure"}
        keys = sorted(key for key in kept if "_" in key)
        assert keys == ["a_0_0", "a_1_0", "b_0_0", "b_1_0"]
        names = ["responses", "response_mask", "rm_scores", "extra_fields"]
        found = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=names)
        fields = list(found["extra_fields"])
        for number, key in enumerate(keys):
            assert int(found["response_mask"][number][-1]) == 1
            assert float(found["rm_scores"][number][-1]) == 1.0
            assert float(found["rm_scores"][number].sum()) == 1.0
            assert kept[key]["response_len"] == len(found["responses"][number])
            assert fields[number]["reward_extra_info"]["score"] == 1.0
    finally:
        tq.close()
        ray.shutdown()
