"""A server proves what it serves before it plays; real models on both sides."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.engines.settings import ENGINE, EngineSite
from srl_agents.engines.vllm.engine import VLLMEngine
from srl_agents.models.base_model import BaseModel
from srl_agents.models.probe import (
    BOUND,
    ROUGH_BOUND,
    distance,
    logprobs_under,
    probe_of,
    probe_tokens,
)
from srl_agents.models.sources.catalog import TINY
from srl_agents.models.sources.random_model import build
from srl_agents.records import WeightUpdate
from srl_agents.transports.files import FilesTransport
from srl_envs.errors import ConfigError, DeadlineError, ModelError
from tests.vllm_fake import VLLMFake, noisy
from tests.vllm_stub import vllm_stub

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base() -> BaseModel:
    base = BaseModel.load(TINY, lora_rank=4)
    for seed, name in enumerate(("alice", "bob")):
        base.add_adapter(name, seed)
        draw = torch.Generator().manual_seed(seed)
        moved = {
            key: tensor + 0.05 * torch.randn(tensor.shape, generator=draw)
            for key, tensor in base.adapter_tensors(name).items()
        }
        base.set_adapter_tensors(name, moved)
    return base


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def served(fake: VLLMFake, opened: ExitStack) -> VLLMFake:
    opened.enter_context(vllm_stub(fake))
    return fake


def engine(url: str, base: BaseModel, folder: Path, said: list[str], **settings: Any) -> VLLMEngine:
    transport = FilesTransport(folder / "versions")
    site = EngineSite(
        base=base, sampling=SamplingSettings(max_new_tokens=4), batch_rows=4,
        open_update=transport.open, folder=folder, say=said.append,
    )  # fmt: skip
    recipe = {"kind": "vllm", "url": url, "start_timeout_s": 20.0, **settings}
    made = ENGINE.convert(recipe, "engine").make_engine(site)
    assert isinstance(made, VLLMEngine)
    return made


def published(base: BaseModel, name: str, folder: Path, **changes: Any) -> WeightUpdate:
    """A version as a run publishes it."""
    from dataclasses import replace

    tensors = base.adapter_tensors(name)
    update = FilesTransport(folder / "versions").publish(base.freeze_adapter(name), tensors)
    logprobs = logprobs_under(base, name, probe_tokens(base.chat))
    return replace(update, **({"logprobs": logprobs} | changes))


def play(made: VLLMEngine, *updates: WeightUpdate) -> None:
    """Install versions, ask each for a reply, and close."""

    async def run() -> None:
        try:
            for update in updates:
                await made.install(update)
                request = GenerationRequest(observation="Move.", version=update.version, key=(1,))
                assert (await made.generate(request)).token_ids
        finally:
            await made.close()

    asyncio.run(run())


def test_the_same_model_is_accepted_and_plays_each_version(
    base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    fake = served(VLLMFake(), opened)
    said: list[str] = []
    made = engine(fake.url, base, tmp_path, said)
    play(made, published(base, "alice", tmp_path), published(base, "bob", tmp_path))
    assert not said
    assert not fake.adapters


def test_both_sides_of_one_model_agree_to_rounding(base: BaseModel) -> None:
    other = BaseModel.load(TINY, lora_rank=4, attention="eager")
    probe = probe_of(base, "float32")
    assert probe.bound == BOUND
    assert probe_of(base).bound == ROUGH_BOUND
    found = logprobs_under(other, None, probe.tokens)
    assert distance(found, probe.logprobs) < BOUND / 100
    rounded = BaseModel.load(TINY, lora_rank=4, dtype="bfloat16")
    apart = distance(logprobs_under(rounded, None, probe.tokens), probe.logprobs)
    assert BOUND < apart < ROUGH_BOUND


@pytest.mark.parametrize("share", [0.15, 0.05])
def test_noise_on_the_served_weights_is_refused(
    share: float, base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    fake = served(VLLMFake(base=noisy(BaseModel.load(TINY, lora_rank=4), share)), opened)
    with pytest.raises(ConfigError, match=r"serves another model .* differ by .* nats") as refusal:
        engine(fake.url, base, tmp_path, [])
    assert "\n" not in str(refusal.value)


def test_another_base_with_another_vocabulary_is_refused(
    base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    other = BaseModel.load(build(tmp_path / "other", vocab=300), lora_rank=4)
    fake = served(VLLMFake(base=other), opened)
    with pytest.raises(ConfigError, match=r"out of vocabulary|another model"):
        engine(fake.url, base, tmp_path, [])


def test_a_server_that_reads_stop_texts_by_another_tokenizer_is_refused(
    base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    fake = served(VLLMFake(ends=False), opened)
    with pytest.raises(ConfigError, match="another tokenizer"):
        engine(fake.url, base, tmp_path, [])


def test_a_version_with_other_weights_is_refused(
    base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    fake = served(VLLMFake(), opened)
    far = tuple(value - 0.5 for value in published(base, "alice", tmp_path).logprobs)
    made = engine(fake.url, base, tmp_path, [])
    with pytest.raises(ModelError, match="plays something else than alice@"):
        play(made, published(base, "alice", tmp_path, logprobs=far))


def test_a_server_that_mixes_adapters_up_within_the_bound_is_refused(
    base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    fake = served(VLLMFake(swaps=True), opened)
    made = engine(fake.url, base, tmp_path, [], logprob_bound=5.0)
    with pytest.raises(ModelError, match="plays the base under the name of alice@"):
        play(made, published(base, "alice", tmp_path))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"page": True}, "an HTML page: a list of models was expected"),
        ({"tokens": False}, "takes no tokens. Start it by `srl serve MODEL`"),
    ],
)
def test_another_server_than_vllm_is_refused_in_one_line(
    fault: dict[str, Any], words: str, base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    fake = served(VLLMFake(**fault), opened)
    with pytest.raises(ConfigError) as refusal:
        engine(fake.url, base, tmp_path, [])
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_address_without_a_server_is_refused(base: BaseModel, tmp_path: Path) -> None:
    with vllm_stub() as gone:
        url = gone.url
    with pytest.raises(ConfigError, match="does not answer: tried for 5 s"):
        engine(url, base, tmp_path, [])


def test_a_server_that_accepts_connections_and_is_silent_is_waited_for(
    base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    fake = served(VLLMFake(lists_after_s=6.0), opened)
    play(engine(fake.url, base, tmp_path, []), published(base, "alice", tmp_path))
    fake.lists_after_s = 3.0
    with pytest.raises(ConfigError, match=r"accepts connections and listed no models within 1 s"):
        engine(fake.url, base, tmp_path, [], start_timeout_s=1.0)


class Fixed(VLLMFake):
    """Loads no adapters."""

    def answer(self, path: str, request: Any) -> tuple[int, Any]:
        missing = path == "/v1/load_lora_adapter"
        return (404, {"detail": "Not Found"}) if missing else super().answer(path, request)


@pytest.mark.parametrize(
    ("kind", "fault", "words"),
    [
        (VLLMFake, {"page": True}, "an HTML page: a list of models was expected"),
        (
            VLLMFake,
            {"name": "other"},
            "serves other, and the model without adapter has to be called",
        ),
        (VLLMFake, {"tokens": False}, "so it takes no tokens"),
        (Fixed, {}, "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"),
    ],
)
def test_what_a_server_answers_refuses_it_before_the_base_is_loaded(
    kind: type[VLLMFake], fault: dict[str, Any], words: str, base: BaseModel, opened: ExitStack
) -> None:
    url = served(kind(base=base, **fault), opened).url
    settings = ENGINE.convert({"kind": "vllm", "url": [url, url]}, "engine")
    with pytest.raises(ModelError) as refusal:
        settings.look()
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_look_refuses_no_server_that_is_sound_or_slow(base: BaseModel, opened: ExitStack) -> None:
    fake = served(VLLMFake(base=base), opened)
    settings = ENGINE.convert({"kind": "vllm", "url": fake.url}, "engine")
    settings.look()
    assert not fake.loads
    fake.lists_after_s = 3.0
    settings.look()


def test_a_server_without_adapters_is_refused_with_the_command_that_starts_it(
    base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    fake = served(Fixed(), opened)
    with pytest.raises(ConfigError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
        engine(fake.url, base, tmp_path, [])


def test_a_server_that_ends_in_a_version_change_is_waited_for_and_compared_again(
    base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    """It dies in the third load (after the zeros and alice) and comes back without adapters."""
    fake = served(VLLMFake(dies_at=3), opened)
    said: list[str] = []
    made = engine(fake.url, base, tmp_path, said)

    def revive() -> None:
        while not fake.dead:
            time.sleep(0.01)
        fake.restart()

    thread = threading.Thread(target=revive)
    thread.start()
    play(made, published(base, "alice", tmp_path), published(base, "bob", tmp_path))
    thread.join()
    assert len(said) == 1
    assert "does not answer" in said[0]
    assert "at most 20 s" in said[0]
    assert [name.partition("@")[0] for name in fake.loads] == [
        name.partition("@")[0]
        for name in (fake.loads[0], "alice", "bob", fake.loads[0], "alice", "bob")
    ]


def test_a_server_that_comes_back_with_other_weights_is_refused(
    base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    fake = served(VLLMFake(dies_at=2), opened)
    made = engine(fake.url, base, tmp_path, [])

    def revive() -> None:
        while not fake.dead:
            time.sleep(0.01)
        noisy(fake.base, 0.15)
        fake.restart()

    thread = threading.Thread(target=revive)
    thread.start()
    with pytest.raises(ModelError, match="serves another model"):
        play(made, published(base, "alice", tmp_path))
    thread.join()


def test_a_server_that_does_not_come_back_ends_the_run_with_what_to_do(
    base: BaseModel, opened: ExitStack, tmp_path: Path
) -> None:
    fake = served(VLLMFake(dies_at=2), opened)
    made = engine(fake.url, base, tmp_path, [], start_timeout_s=1.0)
    with pytest.raises(
        DeadlineError, match=r"did not come back within 1 s. Start the server again"
    ):
        play(made, published(base, "alice", tmp_path))


def test_the_bound_of_a_recipe_is_a_difference(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="logprob_bound=0"):
        ENGINE.convert({"kind": "vllm", "logprob_bound": 0.0}, "engine")
