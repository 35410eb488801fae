"""Rules for entrants' names, and names on a board."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboards.bundles.agents import parse_entrants
from leaderboards.bundles.roster import check_agents, roster
from leaderboards.contents.bases import KNOWN, base_hint, base_label, base_source
from leaderboards.contents.intake import BundleError
from leaderboards.names import (
    confused,
    default_name,
    name_fault,
    name_key,
    split_name,
    submitter_fault,
)
from leaderboards.protocol import load_protocol
from leaderboards.reserved import in_catalog, makers, reservation, skeleton
from srl_agents.agents.resolver import MODELS
from srl_envs import list_envs, spec
from srl_envs.errors import ConfigError

PROTOCOL = load_protocol("kuhn_poker-v0")
REFERENCES = [
    {"agent_id": name, "spec": {"bot": name.removeprefix("bot:"), "env": PROTOCOL.env}}
    for name in PROTOCOL.references
]


def model(adapter: str | None = None, **changes: Any) -> dict[str, Any]:
    decoding = PROTOCOL.decoding
    return {
        "base": "tiny",
        "base_sha256": "ab" * 32,
        "adapter": adapter,
        "lora": None if adapter is None else [8, 16.0],
        "prompt": "0" * 64,
        "tokenizer": "1" * 64,
        "dtype": "float32",
        "sampler": "inverse-cdf/1",
        "root_seed": 0,
        "sampling": {"temperature": decoding.temperature, "max_new_tokens": 8},
        "stop": list(decoding.stop),
        "parser": PROTOCOL.env,
        **changes,
    }


@pytest.mark.parametrize(
    "name",
    [
        "tiny",
        "alice@30",
        "alice@0",
        "a" * 80,
        "x_1+y",
        "smollm2-135m",
        "7",
        "ann/Llama-3.1-8B",
        "philip",
        "agent-13",
        "le-chat",
        "car-ol",
        "io",
        "alice-seed0",
        "ann/strong",
        "claudia",
        "minimax-3",
    ],
)
def test_plain_names_are_free(name: str) -> None:
    assert name_fault(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "", "a b", "x" * 81, "new\nline", "<script>", "-x", "_x", "p\u0430", "a/b/c", "/a", "a/", "a:b", "..",
        "Bot:strong", "b0t:strong", "B-o-t", "b0t", "openai/gpt-5", "Open_AI-5", "0penai", "An.thropic",
        "goog1e-2", "GoogIe", "A1ibaba", "human", "ANCHOR1", "srl-official", "5rl", "meta-llama", "m3ta",
        "p@", "@3", "p@x", "p@-1", "p@1.5", "p@01", "p@1@2", "p@" + "9" * 40, "p@1000000001", "p@\u0663",
        "gpt-5", "claude-opus-4", "gemini-3-pro", "qwen3", "Llama-3.1-8B", "c1aude", "G.P.T", "9pt-4",
        "6emini", "my-gpt-5", "0peration-Qwen", "phi-4", "o3-mini", "L3-verified", "I3", "my-l2",
        "verified-agent", "official", "ann/L3", "ann/verified-x", "openai/mine", "Strong", "r4ndom",
        "constructor", "toString", "valueOf", "NULL", "smollm3", "deepseek-r9/x",
        "rnistral-large", "rneta-llama", "cleepmind", "cIeepmind", "qvven3", "hurnan", "Rnicrosoft",
    ],
)  # fmt: skip
def test_names_that_mislead_or_break_are_refused(name: str) -> None:
    assert name_fault(name)


def test_a_board_reserves_further_names() -> None:
    assert name_fault("acme-1") == ""
    assert "'acme' are reserved" in name_fault("A.c.m.e-1", reserved=["acme"])


def test_names_that_read_alike_are_told() -> None:
    assert confused(["alice@3", "bob", "Al_ice@3"]) == ("alice@3", "Al_ice@3")
    assert confused(["bob", "alice", "AIice"]) == ("alice", "AIice")
    assert confused(["marlow", "rnarlow"]) == ("marlow", "rnarlow")
    assert confused(["wolf", "VVolf"]) == ("wolf", "VVolf")
    assert confused(["alice5", "alices"]) == ("alice5", "alices")
    assert (
        confused(["alice@3", "alice@30", "alice", "v3", "v8", "v6", "v9", "clara", "dara"]) is None
    )
    with pytest.raises(ConfigError, match="read alike"):
        parse_entrants(["my-model=tiny", "MyModel=tiny"], PROTOCOL)


def test_hub_ids_and_folders_are_called_by_their_last_part() -> None:
    assert default_name("HuggingFaceTB/SmolLM2-135M") == "SmolLM2-135M"
    assert default_name("/home/me/models/mine/") == "mine"
    (entrant,) = parse_entrants(["HuggingFaceTB/SmolLM2-135M"], PROTOCOL)
    assert entrant.name == "SmolLM2-135M"


def test_lineage_and_steps_come_from_the_name() -> None:
    assert split_name("alice@30") == ("alice", 30)
    assert split_name("alice") == ("alice", 0)


def test_role_lineage_and_parent_are_the_boards() -> None:
    references: Any = REFERENCES
    agents: list[tuple[str, dict[str, Any]]]
    agents = [(a["agent_id"], a["spec"]) for a in references]
    agents += [
        ("alice@3", model("a" * 16)),
        ("plain", model()),
        ("other", model(base_sha256="cd" * 32)),
    ]
    found = {agent.agent_id: agent for agent in roster(PROTOCOL, agents)}
    roles = {name: agent.role for name, agent in found.items()}
    assert {name for name, role in roles.items() if role == "anchor"} == {
        f"bot:{name}" for name in PROTOCOL.anchors
    }
    alice = found["alice@3"]
    assert (alice.role, alice.lineage, alice.step, alice.parent) == ("frozen", "alice", 3, "plain")
    assert found["plain"].parent is None


@pytest.mark.parametrize(
    "changes",
    [{"prompt": "2" * 16}, {"sampling": {"temperature": 1.0, "max_new_tokens": 9}}, {"stop": []}],
)
def test_a_model_of_other_contents_is_no_parent(changes: dict[str, Any]) -> None:
    found = roster(PROTOCOL, [("alice@3", model("a" * 16)), ("plain", model(**changes))])
    assert found[0].parent is None


def test_entrants_stand_in_their_order_each_once() -> None:
    a, b = ({"agent_id": name, "spec": model()} for name in ("a", "b"))
    check_agents(PROTOCOL, [*REFERENCES, a, b])
    for agents in ([b, a], [a, a], [REFERENCES[0], a]):
        with pytest.raises(BundleError, match="by name, each once"):
            check_agents(PROTOCOL, [*REFERENCES, *agents])
    with pytest.raises(BundleError, match="is not the reference"):
        check_agents(PROTOCOL, [*REFERENCES[1:], a])
    with pytest.raises(BundleError, match="a bot keeps its own name"):
        check_agents(PROTOCOL, [*REFERENCES, {"agent_id": "me", "spec": REFERENCES[0]["spec"]}])


def test_a_base_is_called_by_its_hash_and_not_by_what_an_entrant_writes() -> None:
    lie = model(base="Llama-3.1-405B")
    assert base_label(lie) == "unknown base abababababab"
    assert base_label(lie, {"ab" * 32: "ours"}) == "ours"
    assert base_label({"bot": "strong"}) is None
    known = next(iter(KNOWN))
    assert base_label(model(base_sha256=known)) == KNOWN[known]
    assert base_source(model(base="Llama-3.1-405B", base_sha256=known)) == KNOWN[known]
    assert base_source(lie) is None
    assert set(KNOWN.values()) == set(MODELS)  # every base that can be named without a hub


@pytest.mark.parametrize(
    ("name", "hint"),
    [("tiny", "tiny"), ("org/model", "org/model"), ("/home/me/my models/x", "x"), ("../..", "_.")],
)
def test_a_bundle_names_no_folder_of_its_maker(name: str, hint: str) -> None:
    assert base_hint(name) == hint


def test_the_shipped_model_is_known_by_its_weights() -> None:
    from srl_agents.agents.contents import base_sha256
    from srl_agents.models.sources.catalog import resolve

    assert KNOWN[base_sha256(resolve("tiny"))] == "tiny"


def test_a_maker_who_has_proven_it_uses_its_own_names_only() -> None:
    assert name_fault("gpt-5", maker="openai") == ""
    assert name_fault("openai-mini@3", maker="openai") == ""
    for maker in makers():
        assert name_fault("L3-verified", maker=maker)
        assert name_fault("constructor", maker=maker)
        if maker != "openai":
            assert "reserved for openai" in name_fault("gpt-5", maker=maker)


def test_a_name_that_was_registered_before_the_list_had_it_stays() -> None:
    early, late = "2026-11-22T11:44:14+00:00", "2026-11-23T00:00:00+00:00"
    assert name_fault("gpt-5", when=early) == ""
    assert name_fault("gpt-5", when=late)
    assert name_fault("openai-5", when=early)  # reserved from the beginning


def test_the_list_names_every_bot_and_the_catalog() -> None:
    """Fails when an environment brings a bot of a new name: add it to reserved_names.json."""
    bots = {bot for env in list_envs() for bot in spec(env).bots}
    free = sorted(bot for bot in bots if reservation(bot) is None)
    assert not free
    assert all(map(in_catalog, KNOWN.values()))


def test_a_name_of_the_catalog_is_for_its_weights() -> None:
    known = {name: sha for sha, name in KNOWN.items()}
    honest = model(base_sha256=known["tiny"])
    check_agents(PROTOCOL, [*REFERENCES, {"agent_id": "tiny", "spec": honest}])
    trained = model("a" * 64, base_sha256=known["tiny"])
    for name, contents in {"tiny": model(), "T1ny": trained, "SmolLM2-135M": honest}.items():
        with pytest.raises(BundleError, match="these are not its weights"):
            check_agents(PROTOCOL, [*REFERENCES, {"agent_id": name, "spec": contents}])


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("alice@30", "alice"), ("ALICE", "alice"), ("A-l.I_c-e@9", "alice"), ("al1ce", "alice"),
        ("4lice", "alice"), ("\u0430lice", "alice"), ("\uff21lice", "alice"), ("\u00e1lice", "alice"),
        ("alice/gpt-5@3", "alice"), ("AIice/x", "alice"), ("rnarlow", "marlow"), ("VVolf", "wolf"),
    ],
)  # fmt: skip
def test_look_alikes_have_one_owner(name: str, key: str) -> None:
    assert name_key(name) == skeleton(key)


@given(st.text(st.characters(max_codepoint=127), max_size=40))
def test_a_skeleton_is_its_own_skeleton_and_overlooks_case(name: str) -> None:
    assert skeleton(skeleton(name)) == skeleton(name)
    assert skeleton(name) == skeleton(name.upper()) == skeleton(name.replace("-", "_"))


def test_a_row_is_not_by_a_maker_who_has_not_proven_it() -> None:
    assert submitter_fault("OpenAI")
    assert submitter_fault("\u041e\u0440\u0435n\u0410I")
    assert submitter_fault("Team of Anthropic")
    assert submitter_fault("OpenAI", maker="openai") == ""
    for text in ("", "SRL", "Ann Müller", "A. Strong", "Verified Labs", "\u738b"):
        assert submitter_fault(text) == ""
