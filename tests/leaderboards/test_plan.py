"""A plan before the first request: counts of the schedule, prices of the file, limits of the provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leaderboards.bundles.plan import Assumed
from leaderboards.protocol import load_protocol
from srl_agents.engines.endpoint.providers import PROVIDERS
from srl_envs.api.episode import play
from srl_envs.errors import ConfigError
from tests.chat_server import MODEL, chat_server
from tests.leaderboards.command import main

SEEDS = 2


def a_provider(folder: Path, url: str, **limits: int) -> Path:
    (folder / "prices.yaml").write_text(
        "date: 2026-11-22\nsource: https://example.com/pricing\n"
        f"prices: {{here: {{{MODEL}: {{input: 1, output: 10}}}}}}\n"
    )
    path = folder / "providers.yaml"
    told = "".join(f"\n    {name}: {value}" for name, value in limits.items())
    path.write_text(f"prices: prices.yaml\nproviders:\n  here:\n    url: {url}{told}\n")
    return path


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["plan", "--json", "--seeds", str(SEEDS), *arguments]) == 0
    found: dict = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.slow
def test_a_run_asks_what_was_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a game of three problems, with a model that answers each legally, to the request."""
    with chat_server(reply=lambda _: "<action>1; 1</action>") as server:
        arguments = [
            "math_duel-v0.easy3",
            "--seeds",
            "1",
            f"--agent=me=openai:{MODEL}@{server.url}",
        ]
        assert main(["plan", "--json", *arguments]) == 0
        (row,) = json.loads(capsys.readouterr().out)["agents"]
        assert main(["run", *arguments, "--out", str(tmp_path / "run"), "--unregistered"]) == 0
    greeting, *asked = server.requests
    assert len(asked) == row["requests"] == 3 * row["matches"]
    characters = sum(len(m["content"]) for request in asked for m in request["messages"])
    assert row["prompt_tokens"] == pytest.approx(characters / 4, rel=0.05)
    assert greeting["messages"] != asked[0]["messages"]


def test_money_and_time_follow_from_prices_and_limits_and_nobody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with chat_server() as server:
        path = a_provider(tmp_path, server.url, requests_per_minute=6)
        monkeypatch.setenv(PROVIDERS, str(path))
        found = planned(capsys, "nim", f"--agent=me=openai:{MODEL}@here", "--reply-tokens", "7")
        assert server.requests == []
    (row,) = found["agents"]
    assert row["reply_tokens"] == 7 * row["requests"]
    assert row["cost"] == pytest.approx((row["prompt_tokens"] + 10 * row["reply_tokens"]) / 1e6)
    tries, limit = row["most_requests"] // row["requests"], 128
    protocol = load_protocol("nim-v0")
    assert (tries, limit) == (1 + protocol.limits.max_retries, protocol.decoding.max_new_tokens)
    most = (tries * row["prompt_tokens"] + 10 * limit * row["most_requests"]) / 1e6
    assert row["most_cost"] == pytest.approx(most)
    assert found["seconds"] == {"nim-v0": pytest.approx(10.0 * row["requests"])}


def test_matches_are_counted_once_for_all_agents(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No name counts, so eight agents take no longer to plan than one."""
    played: list[int] = []

    def counting(*arguments: Any, **options: Any) -> Any:
        played.append(1)
        return play(*arguments, **options)

    monkeypatch.setattr("leaderboards.bundles.plan.play", counting)
    agents = [f"--agent=m{k}=openai:m{k}@http://127.0.0.1:9/v1" for k in range(3)]
    rows = planned(capsys, "nim", *agents)["agents"]
    assert len(played) == Assumed().sample
    assert len({row["requests"] for row in rows}) == 1


def test_an_unknown_price_is_unknown_and_weights_here_cost_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    served, local = planned(
        capsys, "nim", f"--agent=me=openai:{MODEL}@http://x/v1", "--agent=tiny"
    )["agents"]
    assert (served["agent"], served["cost"]) == ("me", None)
    assert (local["agent"], local["cost"]) == ("tiny", 0.0)
    assert main(["plan", "nim", "kuhn_poker", "--seeds", "1", "--agent=tiny"]) == 0
    assert "tiny in all: " in capsys.readouterr().out


def test_impossible_numbers_are_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (
        ["plan", "nim", "--agent=tiny", "--reply-tokens", "0"],
        ["plan", "nim", "--agent=tiny", "--seconds-per-reply", "3"],
        ["plan", "nim", "--agent=tiny", "--max-new-tokens", "100000"],
        ["plan", "nim"],
        ["plan", "--agent=tiny"],
    ):
        assert main(wrong) == 2, wrong
        assert len(capsys.readouterr().err.strip().splitlines()) == 1, wrong
    with pytest.raises(ConfigError, match="characters_per_token"):
        Assumed(characters_per_token=float("nan"))
