"""Simulated providers, and a board of two of them from its plan to its site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx2
import numpy as np
import pytest

import srl_envs
from benchmarks.league.providers_week import stopped, week
from benchmarks.league.simulated_providers import PROVIDERS, Server, reply, serving, titles
from leaderboards.protocol import load_protocol, protocol_names

ALDER, BIRCH = PROVIDERS[:2]
NIM = "nim-v0"


def prompt(name: str = NIM) -> str:
    protocol = load_protocol(name)
    env = srl_envs.make(protocol.env, **protocol.env_options)
    text: str = next(iter(env.reset(seed=1)[0].values()))["text"]
    return text


def asked(server: Server, text: str, **more: int) -> httpx2.Response:
    body = {"model": server.provider.model, "messages": [{"role": "user", "content": text}], **more}
    return httpx2.post(f"{server.url}/chat/completions", json=body, trust_env=False, timeout=30)


def test_a_prompt_of_every_game_is_known_and_its_reply_is_always_the_same() -> None:
    for name in protocol_names():
        assert any(title in prompt(name) for title in titles()), name
    strong, weak = (replace(ALDER, shares={bot: 1.0}) for bot in ("strong", "none"))
    assert reply(strong, prompt()) == reply(strong, prompt()) != ""
    with pytest.raises(srl_envs.errors.UnknownPolicyError):
        reply(weak, prompt())
    assert reply(replace(ALDER, shares={}), prompt()) == "<action>I would rather not say</action>"


def test_what_was_written_is_billed_whether_it_came_or_not_and_limits_hold() -> None:
    cutting = replace(ALDER, faults={"cut": 1.0}, latency_s=0.0)
    slow = replace(BIRCH, per_day=1, latency_s=0.0, faults={})
    with serving([cutting, slow], 1.0) as (cut, limited):
        with pytest.raises(httpx2.TransportError):
            asked(cut, prompt())
        assert (cut.bill.written, cut.bill.faults["cut"]) == (1, 1)
        tokens = (cut.bill.prompt_tokens, cut.bill.reply_tokens)
        assert tokens[0] == round(len(prompt()) / 4)
        assert cut.bill.cost(cutting) == (tokens[0] * 2.5 + tokens[1] * 15) / 1e6
        assert asked(limited, prompt(), max_tokens=9).status_code == 400
        assert asked(limited, prompt()).json()["choices"][0]["finish_reason"] == "end_turn"
        refused = asked(limited, prompt())
        assert refused.status_code == 429
        assert 86_000_000 < int(refused.headers["Retry-After-Ms"]) <= 86_400_001
        assert limited.bill.written == 1


def test_the_rule_takes_fewer_seeds_where_a_difference_is_clear() -> None:
    rng = np.random.default_rng(0)
    clear, none = (stopped(rng.normal(mean, 0.5, 64)) for mean in (1.0, 0.0))
    assert (clear["apart"], clear["adaptive"]) == (1.0, pytest.approx(8, abs=1))
    assert none["adaptive"] > 50


@pytest.mark.slow
def test_a_small_week_is_planned_killed_continued_and_published(tmp_path: Path) -> None:
    calm = [replace(one, per_day=10**7, latency_s=4.0, faults={}) for one in (ALDER, BIRCH)]
    found = week(tmp_path, [NIM], calm, seeds=1, speed=100.0)
    assert (found["matches"], found["kept_matches_lost"]) == (20 + 10 * 2, 0)
    assert found["matches_at_the_kill"] < found["matches"]
    assert (tmp_path / "site/index.html").is_file()
    for row in found["models"]:
        assert row["board"]["requests"] <= row["plan"]["most_requests"]
        # what was on its way at the kill is paid twice, and nothing else
        assert 0 <= row["bill"]["not_on_the_board"] <= 64
        assert row["bill"]["cost"] >= row["board"]["cost"] > 0
