"""A row's origin on the page: the submitter's statements, the bundle it comes from, and its level."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from leaderboards.boards.publishing import Attempts, attempts
from leaderboards.keys import fingerprint
from leaderboards.pages.entries import described_entries
from srl_agents.league.agents import AgentVersion
from srl_agents.records import MatchSpec

NONE = Attempts(Counter(), Counter())


def an_agent(name: str, **spec: Any) -> AgentVersion:
    return AgentVersion(agent_id=name, lineage=name, role="frozen", spec=spec)


def an_entry(
    *entrants: AgentVersion,
    level: str = "L2",
    when: str = "2030",
    signed: bool = True,
    **changes: Any,
) -> Any:
    """A bundle of references and entrants, as `read_board` gives it."""
    declared = {"attempts": 1, "submitter": "Ann", "training_data": "none"} | changes
    made = {"commit": "c0ffee", "command": "srl", "started": "2029", "srl": "9", "python": "3"}
    seats = [(agent.agent_id, "bot:strong") for agent in entrants] or [("bot:strong", "bot:strong")]
    return SimpleNamespace(
        level=level,
        verified={"when": when, "published": when} | ({"signature": "00"} if signed else {}),
        bundle=SimpleNamespace(
            root="f00d",
            agents=(an_agent("bot:strong"), *entrants),
            entrants=entrants,
            claim={"declared": declared},
            manifest={"provenance": made},
            ticket=None,
            protocol=SimpleNamespace(name="nim-v0"),
            specs=[a_match(*seats[0]), *(a_match(*pair) for pair in seats[1:])],
        ),
    )


def a_match(*seats: str, seed: int = 0) -> MatchSpec:
    return MatchSpec(env_id="nim-v0", seed=seed, split="eval", seats=seats)


def test_an_entrants_row_has_its_submitters_words_and_a_references_only_the_boards() -> None:
    entries = [an_entry(an_agent("a")), an_entry(submitter="SRL")]
    found = described_entries(entries, NONE)
    assert found["a"] == {
        "submitter": "Ann", "owner": "", "maker": "", "endpoint": None,
        "attempts": {"registered": 0, "owners": 0, "declared": 1},
        "training_data": "none", "commit": "c0ffee", "command": "srl", "started": "2029",
        "srl": "9", "verified": "2030", "signed": True,
    }  # fmt: skip
    assert (found["bot:strong"]["submitter"], found["bot:strong"]["attempts"]) == ("SRL", None)
    assert "bot:strong" not in described_entries([an_entry(an_agent("a"))], NONE)


def test_the_first_bundle_speaks_and_one_unsigned_bundle_unsigns_the_row() -> None:
    late = an_entry(an_agent("a"), when="2031", submitter="Eve", signed=False)
    found = described_entries([late, an_entry(an_agent("a"), when="2030")], NONE)["a"]
    assert (found["submitter"], found["verified"], found["signed"]) == ("Ann", "2030", False)


def a_ticket(owner: str, protocol: str, *names: str) -> Any:
    agents = [SimpleNamespace(agent_id=name) for name in names]
    request = SimpleNamespace(owner=owner, protocol=protocol, agents=agents, maker="")
    return SimpleNamespace(request=request)


def test_attempts_are_those_of_this_agent_and_its_owners_other_agents_stand_apart() -> None:
    """Versions of one lineage are one agent: who tries ten checkpoints has tried ten times."""
    mine = a_ticket("key", "nim-v0", "a@3", "b")
    log = [
        mine, a_ticket("key", "nim-v0", "A@9"), a_ticket("key", "nim-v0", "c"),
        a_ticket("key", "blotto-v0", "a"), a_ticket("other", "nim-v0", "b"),
    ]  # fmt: skip
    entry = an_entry(an_agent("a@3"), an_agent("b"), attempts=2)
    entry.bundle.ticket = mine
    found = described_entries([entry], attempts(log))
    assert found["a@3"]["attempts"] == {"registered": 2, "owners": 4, "declared": 2}
    assert found["b"]["attempts"] == {"registered": 1, "owners": 4, "declared": 2}
    assert found["b"]["owner"] == fingerprint("key")


def test_an_endpoint_is_named_by_its_host_and_by_what_it_reported() -> None:
    served = {"url": "https://api.example:8000/v1", "model": "m", "reported": "m-2030-01-02"}
    found = described_entries([an_entry(an_agent("a", endpoint=served))], NONE)["a"]["endpoint"]
    assert (found["provider"], found["dated_model"]) == ("api.example", "m-2030-01-02")
    thinking = {"max_thought_tokens": 64, "extra": '{"reasoning_effort":"low"}'}
    used = {("f00d", "a"): {"replies": 3}}
    found = described_entries(
        [an_entry(an_agent("a", endpoint=served, thinking=thinking))], NONE, used
    )
    assert found["a"]["endpoint"]["usage"] == {"replies": 3}
    assert found["a"]["endpoint"]["thinking"].startswith("64 tokens for thoughts")
    broken = an_agent("a", endpoint={"url": "http://[x"})
    assert described_entries([an_entry(broken)], NONE)["a"]["endpoint"]["provider"] == ""


@pytest.mark.parametrize("hostile", [None, 7, ["x"], {"x": 1}])
def test_what_is_no_text_is_left_out(hostile: Any) -> None:
    entry = an_entry(an_agent("a", endpoint={"url": hostile, "model": "m"}), submitter=hostile)
    entry.bundle.manifest["provenance"] = {"commit": hostile}
    found = described_entries([entry], NONE)["a"]
    assert found["endpoint"] == {
        "provider": "", "model": "m", "dated_model": "", "url": "", "thinking": "", "usage": None,
    }  # fmt: skip
    assert (found["submitter"], found["commit"], found["command"]) == ("", "", "")
