"""Every named agent can take every seat: all kinds of agents in all commands that seat one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from srl_agents.agents.prompt_file import PromptSettings, write_prompt
from srl_agents.cli.main import main
from srl_agents.league.store.history import LeagueStore
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from tests.chat_server import DATED, MODEL, ChatServer, chat_server
from tests.commit_cases import nightly_but

ENV = "kuhn_poker-v0"
PROMPT = PromptSettings(system="Be brief.").followed_by((("a card", "<action>bet</action>"),))
TRAINING = """
name: guests
model: {base}
env: kuhn_poker-v0
updates: 1
learners: [alice]
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 1, group_size: 2, max_new_tokens: 3}}
opponents: {{mirror: 0, live: 0, past: 0, {opponents}}}
evaluation: {{every: 1, pairs: 1, final_pairs: 1, bots: [{bots}], agents: [{agents}]}}
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model.build(tmp_path_factory.mktemp("base"), context=2048)


@pytest.fixture(scope="module")
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_adapter(base, tmp_path_factory.mktemp("adapter") / "bert@3", seed=1)


def make_adapter(base: Path, folder: Path, seed: int) -> Path:
    model = BaseModel.load(base, lora_rank=2, lora_alpha=4, device="cpu")
    model.add_adapter("a", seed=seed)
    with torch.no_grad():
        for name, tensor in model.trainable_parameters("a").items():
            if "lora_B" in name:
                tensor.fill_(0.02)
    model.save_adapter("a", folder)
    return folder


@pytest.fixture(scope="module")
def prompt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prompt")
    write_prompt(folder, PROMPT)
    return folder


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(reply=lambda _: "<action>check</action>") as found:
        yield found


KINDS: dict[str, Callable[[Path, Path, Path, str], str]] = {
    "bot": lambda base, adapter, prompt, url: "bot:random",
    "model": lambda base, adapter, prompt, url: str(base),
    "model behind a prompt": lambda base, adapter, prompt, url: f"{base}?prompt={prompt}",
    "adapter": lambda base, adapter, prompt, url: f"{base}+{adapter}",
    "adapter behind a prompt": lambda b, adapter, prompt, url: f"{b}+{adapter}?prompt={prompt}",
    "endpoint": lambda base, adapter, prompt, url: f"openai:{MODEL}@{url}",
    "endpoint behind a prompt": lambda b, a, prompt, url: f"openai:{MODEL}@{url}?prompt={prompt}",
}


@pytest.fixture(params=KINDS)
def agent(
    request: pytest.FixtureRequest, base: Path, adapter: Path, prompt: Path, server: ChatServer
) -> Iterator[str]:
    """One of each kind; an endpoint must have been asked behind its prompt at the end."""
    yield KINDS[request.param](base, adapter, prompt, server.url)
    asked = [request_["messages"] for request_ in server.requests if request_["max_tokens"] > 1]
    assert bool(asked) == request.param.startswith("endpoint")
    for chat in asked:
        shown = [message["content"] for message in chat[:-1]]
        behind = ["Be brief.", "a card", "<action>bet</action>"]
        assert shown == (behind if request.param.endswith("prompt") else [])


def test_it_plays(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", ENV, agent, "middle", "--json", "--max-new-tokens", "3"]) == 0
    assert json.loads(capsys.readouterr().out)["policies"] == [agent, "middle"]


def test_it_is_watched(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", ENV, agent, "middle", "--all", "--max-new-tokens", "3"]) == 0
    assert f"({agent}) replies" in capsys.readouterr().out


@pytest.mark.slow
def test_it_is_one_of_a_population(agent: str, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"name: a\nenv: {ENV}\nmatches: 4\nmatchmaking: {{block: 4}}\nmax_new_tokens: 3\nagents:\n"
        f"  - {{agent: middle, role: anchor}}\n  - {{agent: {json.dumps(agent)}, name: me}}\n"
    )
    assert main(["league", "run", str(recipe), "--out", str(tmp_path / "run")]) == 0
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        assert {name for spec, _ in store.matches() for name in spec.seats} == {"bot:middle", "me"}


def train(tmp_path: Path, base: Path, agent: str, updates: int = 1) -> int:
    """Train against only this agent, and be measured against it: a random model need not learn."""
    recipe = tmp_path / "recipe.yaml"
    name = json.dumps(agent)
    bot = agent.startswith("bot:")
    budget = f", budgets: {{{name}: {{requests: 1000}}}}" if agent.startswith("openai:") else ""
    recipe.write_text(
        TRAINING.format(
            base=base,
            opponents="bots: {random: 1}" if bot else f"agents: {{{name}: 1}}{budget}",
            bots="random" if bot else "",
            agents="" if bot else name,
        )
    )
    out = str(tmp_path / "run")
    longer = ["--set", f"updates={updates}"]
    return main(
        [
            "train",
            str(recipe),
            "--out",
            out,
            "--set",
            "survival.allow_nothing_learned=true",
            *longer,
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent", nightly_but({"adapter behind a prompt", "endpoint"}, KINDS), indirect=True
)
def test_it_is_an_opponent_in_training_and_measured_against(
    agent: str, tmp_path: Path, base: Path
) -> None:
    if agent == str(base):  # what all learners start as is met as such
        agent = f"{base.parent}/./{base.name}"
    assert train(tmp_path, base, agent) == 0
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        met = {spec.purpose for spec, _ in store.matches() if agent in spec.seats}
        (known,) = [found for found in store.agents() if found.agent_id == agent]
        assert met == {"bot" if agent.startswith("bot:") else "agent", "eval"}
        assert known.spec
    (record,) = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert f"score_{agent}" in json.loads(record)["learners"]["alice"]


@pytest.mark.slow
def test_it_enters_a_board(agent: str, tmp_path: Path) -> None:
    out = str(tmp_path / "board")
    named = "bot:empty" if agent.startswith("bot:") else f"me={agent}"
    arguments = (
        ["--agent", named, "--max-new-tokens", "3", "--unregistered"] if "me=" in named else []
    )
    run = ["leaderboard", "run", ENV, "--seeds", "1", "--out", out, *arguments]
    assert main(run) == 0
    header = json.loads((tmp_path / "board" / ENV / "run.json").read_text())
    assert ("me" in header["sources"]) == bool(arguments)


# --- what one id stands for ----------------------------------------------------------------------


@pytest.mark.slow
def test_an_opponent_whose_weights_changed_is_refused(base: Path, tmp_path: Path) -> None:
    """The same command goes on with the run, and its folder names other weights now."""
    folder = make_adapter(base, tmp_path / "carl@1", seed=1)
    assert train(tmp_path, base, f"{base}+{folder}") == 0
    make_adapter(base, folder, seed=2)
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        before = store.agents()
    assert train(tmp_path, base, f"{base}+{folder}") == 2
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        assert store.agents() == before


@pytest.mark.slow
def test_an_endpoint_whose_model_changed_is_refused(
    base: Path, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = f"openai:{MODEL}@{server.url}"
    assert train(tmp_path, base, agent) == 0
    assert "cannot be repeated bit for bit" in " ".join(capsys.readouterr().out.split())
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        (known,) = [found for found in store.agents() if found.agent_id == agent]
        assert known.spec["endpoint"]["reported"] == DATED
    server.model = "org/parrot-2027-01-01"
    assert train(tmp_path, base, agent, updates=2) == 2
    assert "these are two models" in " ".join(capsys.readouterr().err.split())


# --- what cannot sit -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("human", "a run has no keyboard"),
        ("bot:random", "name it under `bots`"),
        ("tinny", "Did you mean 'tiny'"),
        ("tiny+nowhere", "not an adapter folder"),
        ("tiny+{adapter}", "an adapter of another model: it reads 64 values per token"),
        ("{shallow}+{adapter}", "an adapter of another model: it changes block"),
        ("openai:m@", "write openai:MODEL@URL"),
        ("anthropic:m", "write 'openai:m@anthropic', its only id"),
        ("openai:m@antropic", "Did you mean 'anthropic'?"),
        ("openai:m@http://127.0.0.1:9/v1", "no server answers"),
        ("{base}", "is what learners start as"),
    ],
)
def test_who_cannot_be_an_opponent_is_named_before_a_model_is_loaded(
    agent: str, words: str, base: Path, adapter: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    shallow = tmp_path / "shallow"
    if "{shallow}" in agent:
        random_model.build(shallow, layers=1, context=2048)
    agent = agent.format(base=base, adapter=adapter, shallow=shallow)
    budget = (
        f", budgets: {{'{agent}': {{requests: 1000}}}}" if agent.startswith("openai:m@") else ""
    )
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        TRAINING.format(
            base=base, opponents=f"agents: {{'{agent}': 1}}{budget}", bots="", agents=""
        )
    )
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == 2
    printed = capsys.readouterr().err
    assert words in " ".join(printed.split())
    assert not (tmp_path / "run/recipe.yaml").exists()
