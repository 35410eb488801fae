"""Models: an honest record holds at L3, and a chosen, edited or borrowed reply does not."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from leaderboards.bundles.agent_specs import is_model
from leaderboards.bundles.agents import build_agents, parse_entrants
from leaderboards.bundles.replaying import replay_match
from leaderboards.bundles.submission import Bundle, adapter_folder, open_bundle
from leaderboards.bundles.verify import Verdict, verify
from leaderboards.contents.bases import KNOWN
from leaderboards.contents.record import SampledTurn, Tokens
from leaderboards.redteam.forger import Forger
from srl_agents.agents import ModelPolicy
from srl_agents.engines.protocol import GenerationRequest
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_envs.errors import ConfigError
from tests.leaderboards.command import main
from tests.leaderboards.forging import make_bundle

pytestmark = pytest.mark.slow
TOKENS_PER_REPLY = 6


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    random_model.build(folder, context=2048)
    return folder


@pytest.fixture(scope="module")
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    model = BaseModel.load(base, lora_rank=2, lora_alpha=4)
    model.add_adapter("a", seed=1)
    with torch.no_grad():
        for name, tensor in model.trainable_parameters("a").items():
            if "lora_B" in name:
                tensor.fill_(0.02)
    model.save_adapter("a", folder)
    return folder


@pytest.fixture(scope="module")
def honest(base: Path, adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return make_bundle(
        tmp_path_factory.mktemp("honest"),
        "kuhn_poker-v0",
        (f"plain={base}", f"alice@3={base}+{adapter}"),
        TOKENS_PER_REPLY,
        with_adapters=True,
    )


@pytest.fixture(scope="module")
def place(honest: Bundle) -> int:
    """A match of the adapter with a bot."""
    return next(k for k, s in enumerate(honest.specs) if s.seats[0] == "alice@3")


def test_an_honest_bundle_of_models_holds_at_l3(honest: Bundle, base: Path) -> None:
    verdict = audit(honest.folder, base)
    assert verdict.accepted, verdict.rejected
    turns = sum(len(t) for r in honest.records() for t in r.tokens.values())
    assert turns > 10
    assert f"{turns} replies of models scored" in verdict.checked["L3"]


def test_the_manifest_names_what_decides_replies(honest: Bundle, base: Path) -> None:
    alice, plain = honest.entrants
    assert (alice.agent_id, alice.lineage, alice.parent, alice.step) == (
        "alice@3",
        "alice",
        "plain",
        3,
    )
    assert alice.spec["lora"] == [2, 4.0]
    assert plain.spec["adapter"] is None
    same = {"base_sha256", "tokenizer", "prompt", "sampling", "stop"}
    assert {k: alice.spec[k] for k in same} == {k: plain.spec[k] for k in same}


def audit(folder: Path, base: Path) -> Verdict:
    """At L3; the base lies in a folder of ours, which a bundle does not name."""
    named = [agent for agent in open_bundle(folder).entrants if is_model(agent)]
    sources = {}
    for agent in named:
        adapter = adapter_folder(folder, agent.agent_id)
        plus = f"+{adapter}" if agent.spec["adapter"] is not None else ""
        sources[agent.agent_id] = f"{base}{plus}"
    return verify(folder, "L3", workers=0, sources=sources)


def changed_tokens(
    o: Forger, k: int, ids: tuple[int, ...] | None = None, logprobs: tuple[float, ...] | None = None
) -> Tokens:
    """The tokens of record ``k`` with another last reply of seat 0."""
    tokens = dict(o.record(k).tokens)
    last = tokens[0][-1]
    tokens[0] = (*tokens[0][:-1], SampledTurn(ids or last.token_ids, logprobs or last.logprobs))
    return tokens


def forged_with(o: Forger, k: int, tokens: Tokens, text: str) -> Path:
    last = len(tokens[0]) - 1
    o.replay_with(k, lambda s, turn, reply: text if (s, turn) == (0, last) else reply, tokens)
    o.recompute_ratings()
    return o.rehash()


def test_forged_log_probabilities_are_found(
    honest: Bundle, place: int, tmp_path: Path, base: Path
) -> None:
    forged = Forger.of(honest, tmp_path)
    claimed = forged.record(place).tokens[0][-1].logprobs
    tokens = changed_tokens(forged, place, logprobs=(claimed[0] / 2, *claimed[1:]))
    reply = last_reply(forged, place)
    verdict = audit(forged_with(forged, place, tokens, reply), base)
    assert verdict.reached == "L2"
    assert f"record {place} " in verdict.rejected
    assert "token 0 is claimed with log-probability" in verdict.rejected


def test_the_best_of_several_honest_replies_is_found(
    honest: Bundle, place: int, adapter: Path, base: Path, tmp_path: Path
) -> None:
    """Another draw of the same model at the same prompt, with its true log-probabilities."""
    forged = Forger.of(honest, tmp_path)
    entrants = parse_entrants([f"a={base}+{adapter}"], honest.protocol)
    policy = build_agents(honest.protocol, entrants, TOKENS_PER_REPLY).policies["a"]
    assert isinstance(policy, ModelPolicy)
    seen = replay_match(forged.record(place)).observations[0][-1]
    reply = asyncio.run(
        policy.engine.generate(
            GenerationRequest(observation=seen, version=policy.version, key=(99,))
        )
    )
    assert reply.text != last_reply(forged, place)
    tokens = changed_tokens(forged, place, reply.token_ids, reply.logprobs)
    verdict = audit(forged_with(forged, place, tokens, reply.text), base)
    assert verdict.reached == "L2"
    assert f"record {place} " in verdict.rejected
    assert "is not the one that its random number selects" in verdict.rejected


def test_a_reply_that_its_tokens_do_not_spell_is_found(
    honest: Bundle, place: int, tmp_path: Path, base: Path
) -> None:
    forged = Forger.of(honest, tmp_path)
    tokens = forged.record(place).tokens
    verdict = audit(forged_with(forged, place, tokens, "<action>pass</action>"), base)
    assert verdict.reached == "L2"
    assert "the tokens spell" in verdict.rejected


def test_a_reply_that_was_cut_short_is_found(
    honest: Bundle, place: int, base: Path, tmp_path: Path
) -> None:
    forged = Forger.of(honest, tmp_path)
    last = forged.record(place).tokens[0][-1]
    assert len(last.token_ids) == TOKENS_PER_REPLY
    tokens = changed_tokens(forged, place, last.token_ids[:2], last.logprobs[:2])
    text = BaseModel.load(base).decode(last.token_ids[:2])
    verdict = audit(forged_with(forged, place, tokens, text), base)
    assert verdict.reached == "L2"
    assert "cut short" in verdict.rejected


@pytest.mark.parametrize("key", ["adapter", "base_sha256", "prompt", "tokenizer", "lora"])
def test_swapped_hashes_of_a_model_are_found(
    key: str, honest: Bundle, tmp_path: Path, base: Path
) -> None:
    """Naively at L0; with new hashes everywhere, when the weights are loaded."""
    forged = Forger.of(honest, tmp_path)
    spec = forged.manifest["claim"]["agents"][-2]["spec"]
    spec[key] = [2, 8.0] if key == "lora" else "0" * len(spec[key])
    (tmp_path / "naive").mkdir()
    naive = Forger.of(honest, tmp_path / "naive")
    naive.manifest = forged.manifest
    assert "manifest.json was edited" in verify(naive.write(), "L0").rejected
    verdict = audit(forged.rehash(), base)
    assert verdict.reached == "L2"
    assert f"agent alice@3: {key}" in verdict.rejected


def test_replies_of_a_stronger_model_do_not_pass_as_those_of_the_declared_one(
    honest: Bundle, base: Path, adapter: Path, tmp_path: Path
) -> None:
    """Only the adapter is inconsistent: the folder holds other weights of the same shape, with their hash."""
    other = tmp_path / "other"
    model = BaseModel.load(base, lora_rank=2, lora_alpha=4)
    model.add_adapter("a", seed=5)
    with torch.no_grad():
        for name, tensor in model.trainable_parameters("a").items():
            if "lora_B" in name:
                tensor.fill_(-0.05)
    model.save_adapter("a", other)
    lent = make_bundle(
        tmp_path / "lent", "kuhn_poker-v0", (f"alice@3={base}+{other}",), TOKENS_PER_REPLY
    )
    forged = Forger.of(lent, tmp_path)
    mine = next(a for a in honest.manifest["claim"]["agents"] if a["agent_id"] == "alice@3")
    forged.manifest["claim"]["agents"][-1] = mine
    sources = {"alice@3": f"{base}+{adapter}"}
    verdict = verify(forged.rehash(), "L3", workers=0, sources=sources)
    assert verdict.reached == "L2"
    assert re.search("log-probability|random number selects", verdict.rejected)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("sampling", {"temperature": 0.1, "max_new_tokens": 6}, "sampling"),
        ("sampling", {"temperature": 1.0, "max_new_tokens": 4096}, "max_new_tokens"),
        ("stop", [], "stop"),
        ("sampler", "best-of-8", "sampler"),
        ("root_seed", 7, "root_seed"),
        ("base_sha256", "", "base_sha256"),
        ("base_sha256", "../../weights", "base_sha256"),
        ("adapter", 7, "adapter"),
    ],
)
def test_a_model_that_samples_by_other_rules_may_not_enter(
    key: str, value: object, words: str, honest: Bundle, tmp_path: Path
) -> None:
    forged = Forger.of(honest, tmp_path)
    forged.manifest["claim"]["agents"][-1]["spec"][key] = value
    verdict = verify(forged.rehash(), "L0")
    assert verdict.reached is None
    assert words in verdict.rejected
    assert "plain" in verdict.rejected


def test_tokens_that_are_missing_are_found_without_the_model(
    honest: Bundle, place: int, tmp_path: Path
) -> None:
    forged = Forger.of(honest, tmp_path)
    forged.tokens[place]["0"].pop()
    verdict = verify(forged.rehash(), "L0")
    assert verdict.reached is None
    assert f"record {place} " in verdict.rejected


@pytest.mark.parametrize(
    "turn", [[[5.0], [-1.0]], [["5"], [-1.0]], [[5], [None]], [[5, 5], [-1.0]]]
)
def test_tokens_of_another_kind_are_found_without_the_model(
    turn: list[object], honest: Bundle, place: int, tmp_path: Path
) -> None:
    forged = Forger.of(honest, tmp_path)
    forged.tokens[place]["0"][0] = turn
    verdict = verify(forged.rehash(), "L0")
    assert f"record {place} " in verdict.rejected
    assert re.search(r"tokens.jsonl.xz: 0\[0\]|one log-probability each", verdict.rejected)


def test_a_file_more_beside_the_adapters_is_found(honest: Bundle, tmp_path: Path) -> None:
    forged = Forger.of(honest, tmp_path)
    (forged.folder / "adapters" / "hook.py").write_text("print('hello')\n")
    assert "adapters/hook.py is not part of a bundle" in verify(forged.rehash(), "L0").rejected


@pytest.mark.parametrize("name", ["", "new\nline", "openai/gpt-5", "Bot:strong", "p@01", "p\u0430"])
def test_names_that_no_run_gives_are_refused(name: str, honest: Bundle, tmp_path: Path) -> None:
    forged = Forger.of(honest, tmp_path)
    forged.manifest["claim"]["agents"][-1]["agent_id"] = name
    verdict = verify(forged.rehash(), "L0")
    assert verdict.reached is None
    assert "manifest.json" in verdict.rejected


# --- prompts ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prompted(base: Path, adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The base and its adapter, both behind a system message and an example."""
    folder = tmp_path_factory.mktemp("prompted")
    file = folder / "recipe.yaml"
    file.write_text("prompt: {system: Be brief., examples: [{observation: a card, reply: bet}]}\n")
    return make_bundle(
        folder,
        "kuhn_poker-v0",
        (f"plain={base}?prompt={file}", f"alice@3={base}+{adapter}?prompt={file}"),
        TOKENS_PER_REPLY,
        with_adapters=True,
    )


def test_a_prompt_is_part_of_what_an_agent_is_and_of_its_bundle(
    prompted: Bundle, honest: Bundle, base: Path
) -> None:
    verdict = audit(prompted.folder, base)
    assert verdict.accepted, verdict.rejected
    for agent, bare in zip(prompted.entrants, honest.entrants, strict=True):
        assert agent.spec["shown"] == {
            "system": "Be brief.",
            "examples": [{"observation": "a card", "reply": "bet"}],
        }
        assert "shown" not in bare.spec
        assert agent.spec["prompt"] != bare.spec["prompt"]
        assert agent.contents != bare.contents
    assert [agent.parent for agent in prompted.entrants] == ["plain", None]
    shown, hidden = (
        {r.spec.match_id: r.tokens for r in b.records() if r.tokens} for b in (prompted, honest)
    )
    assert shown.keys() == hidden.keys()
    assert shown != hidden


def change_example(shown: dict[str, object]) -> None:
    shown["examples"] = [{"observation": "a card", "reply": "fold"}]


def add_example(shown: dict[str, object]) -> None:
    shown["examples"] = [{"observation": "a card", "reply": "bet"}] * 2


def change_system(shown: dict[str, object]) -> None:
    shown["system"] = "Be rich."


@pytest.mark.parametrize(
    "change",
    [
        change_example,
        pytest.param(add_example, marks=pytest.mark.nightly),
        pytest.param(change_system, marks=pytest.mark.nightly),
    ],
)
def test_another_prompt_than_the_declared_one_is_found(
    change: Callable[[dict[str, object]], None], prompted: Bundle, tmp_path: Path, base: Path
) -> None:
    """By its hash; and by the replies, if the forger hashes it again as the model would."""
    forged = Forger.of(prompted, tmp_path)
    agents = forged.manifest["claim"]["agents"]
    change(agents[-1]["spec"]["shown"])
    (tmp_path / "naive").mkdir()
    naive = Forger.of(prompted, tmp_path / "naive")
    naive.manifest = forged.manifest
    assert "manifest.json was edited" in verify(naive.write(), "L0").rejected
    verdict = audit(forged.rehash(), base)
    assert verdict.reached == "L2"
    assert "agent plain: prompt is claimed as" in verdict.rejected
    assert agents[-1]["agent_id"] == "plain"

    (tmp_path / "careful").mkdir()
    careful = Forger.of(prompted, tmp_path / "careful")
    spec = careful.manifest["claim"]["agents"][-1]["spec"]
    change(spec["shown"])
    spec["prompt"] = verdict.rejected.rpartition(" and is '")[2].partition("'")[0]
    verdict = audit(careful.rehash(), base)
    assert verdict.reached == "L2"
    assert re.search("is claimed with log-probability|random number selects", verdict.rejected)


def test_a_prompt_that_was_hidden_is_found(prompted: Bundle, tmp_path: Path, base: Path) -> None:
    forged = Forger.of(prompted, tmp_path)
    for agent in forged.manifest["claim"]["agents"]:
        agent["spec"].pop("shown", None)
    verdict = audit(forged.rehash(), base)
    assert verdict.reached == "L2"
    assert "prompt is claimed as" in verdict.rejected


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "Be brief.",
        {},
        {"system": None, "examples": []},
        {"system": "Be brief."},
        {"system": "Be brief.", "examples": [["a card", "bet"]]},
        {"system": 7, "examples": []},
        {"system": "Be brief.", "examples": [], "stop": []},
    ],
)
def test_what_is_no_prompt_is_found_without_the_model(
    shown: object, prompted: Bundle, tmp_path: Path
) -> None:
    forged = Forger.of(prompted, tmp_path)
    forged.manifest["claim"]["agents"][-1]["spec"]["shown"] = shown
    verdict = verify(forged.rehash(), "L0")
    assert verdict.reached is None
    assert "plain" in verdict.rejected
    assert "shown" in verdict.rejected


def test_a_base_that_is_only_a_folder_somewhere_is_the_users_to_give(honest: Bundle) -> None:
    assert "/" not in honest.entrants[0].spec["base"]
    with pytest.raises(ConfigError, match="is a folder on another machine: give it with --model"):
        verify(honest.folder, "L3", workers=0)


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("adapter_config.json", b"{}"),
        ("adapter_config.json", b"[" * 100_000),
        ("adapter_config.json", b'{"r": 1e999, "lora_alpha": 4}'),
        ("adapter_config.json", b'{"r": [2], "lora_alpha": 4}'),
        ("adapter_config.json", b'{"r": 1000000000, "lora_alpha": 4}'),
        ("adapter_model.safetensors", b""),
        ("adapter_model.safetensors", b"\xff" * 1000),
    ],
)
def test_a_hostile_adapter_in_a_bundle_is_rejected_and_not_raised(
    file: str,
    data: bytes,
    honest: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    base: Path,
) -> None:
    forged = Forger.of(honest, tmp_path)
    (adapter_folder(forged.folder, "alice@3") / file).write_bytes(data)
    monkeypatch.setitem(KNOWN, honest.entrants[0].spec["base_sha256"], str(base))
    verdict = verify(forged.rehash(), "L3", workers=0)
    assert verdict.reached == "L2"
    assert "agent alice@3: its adapter" in verdict.rejected


def test_an_adapter_that_is_not_there_is_the_users_to_give(
    honest: Bundle, base: Path, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = Forger.of(honest, tmp_path)
    shutil.rmtree(forged.folder / "adapters")
    folder = forged.rehash()
    monkeypatch.setitem(KNOWN, honest.entrants[0].spec["base_sha256"], str(base))
    with pytest.raises(
        ConfigError, match="adapter of 'alice@3' is not in the bundle: give it with --model"
    ):
        verify(folder, "L3", workers=0)
    sources = {"alice@3": f"{base}+{adapter}"}
    assert verify(folder, "L3", workers=0, sources=sources).accepted
    with pytest.raises(ConfigError, match="no such model"):
        verify(folder, "L3", workers=0, sources={"bob": "tiny"})


def test_the_commands_find_for_each_bundle_the_weights_that_are_elsewhere(
    honest: Bundle,
    base: Path,
    adapter: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forged = Forger.of(honest, tmp_path)
    shutil.rmtree(forged.folder / "adapters")
    slim = str(forged.rehash())
    bots = str(make_bundle(tmp_path / "bots", "kuhn_poker-v0").folder)
    given = ["--level", "L3", "--model", f"alice@3={base}+{adapter}", "--model", f"plain={base}"]
    assert main(["verify", slim, bots, *given]) == 0
    assert main(["verify", bots, *given]) == 2
    assert "no bundle has such a model" in capsys.readouterr().err


def last_reply(o: Forger, k: int) -> str:
    replies = [s.replies[0] for s in o.record(k).transcript.steps if 0 in s.replies]
    return replies[-1]
