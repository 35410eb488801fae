"""`srl push` and `srl pull` against a hub: what goes, what comes, and what a kill leaves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

import srl_agents
from leaderboards.boards.archive import PUBLISHED
from srl_agents.cli.exchange.parcel import MARK, Parcel, packed, read_mark
from srl_agents.cli.main import main
from srl_envs.errors import ConfigError
from tests.hub_stub import OTHER_KEY, OWNER_KEY, HubStub, hub_stub
from tests.srl_agents.api.test_train_run import RECIPE

pytestmark = [
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),  # the hub's client
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),  # PEFT's
]
ADAPTER = "adapters/alice/adapter_model.safetensors"
FINGERPRINT = "b23266b80d62fa8a"
"""Of the board that SRL ships."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, with files beside it that are only its owner's."""
    run = tmp_path_factory.mktemp("runs") / "small"
    srl_agents.train({**RECIPE, "updates": 1}, out=run, quiet=True)
    (run / "notes.txt").write_text("private")
    (run / "adapters/alice/optimizer.pt").write_text("no weights")
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(trained, tmp_path / "small", symlinks=True))


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """One game of the board that SRL ships."""
    folder = tmp_path / "games"
    shutil.copytree(PUBLISHED / "nim-v0", folder / "nim-v0")
    for name in ("board.json", "registrations.jsonl", "registrations.head.json"):
        shutil.copy(PUBLISHED / name, folder)
    (folder / ".board.lock").touch()
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubStub]:
    """A hub, and this process as one of its users in a folder of its own."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HF_TOKEN", OWNER_KEY)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    with hub_stub() as stub:
        monkeypatch.setattr(constants, "ENDPOINT", stub.url)
        template = stub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield stub


def srl(hub: HubStub, *arguments: str | Path) -> subprocess.Popen[str]:
    """The command in a process of its own, which a test may kill."""
    own = {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(Path.cwd() / "hf")}
    return subprocess.Popen(
        [sys.executable, "-m", "srl_agents.cli.main", *map(str, arguments)],
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed(hub: HubStub, at: str, *arguments: str | Path) -> None:
    """Run a command that is killed when it asks the hub for something."""
    process: list[subprocess.Popen[str]] = []

    def kill() -> None:
        process[0].kill()
        process[0].wait()

    hub.on[at] = kill
    process.append(srl(hub, *arguments))
    process[0].communicate()
    del hub.on[at]
    assert process[0].returncode == -signal.SIGKILL


def faults(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What a command prints that ends with exit code 2."""
    assert main([*map(str, arguments)]) == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message


def mark_of(parcel: Parcel) -> dict[str, Any]:
    text = packed(parcel)[MARK]
    assert isinstance(text, bytes)
    return dict(json.loads(text))


def files_below(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


# --- runs ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_goes_and_comes_back_and_its_adapter_loads_with_plain_peft(
    hub: HubStub, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["push", str(run), "me/small", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert ADAPTER in shown
    assert not hub.repositories

    assert main(["push", str(run), "me/small", "--public", "--json"]) == 0
    sent = json.loads(capsys.readouterr().out)
    found = hub.repositories["models", "me/small"]
    assert not found.private
    assert set(sent["files"]) == set(found.files) - {".gitattributes"}
    assert all(name in shown for name in sent["files"])
    assert not any("notes" in name or ".pt" in name or "league" in name for name in found.files)
    gain = srl_agents.Run.open(run).gains()[0].difference
    assert f"{gain.estimate:+.3f} [" in found.files["README.md"].decode()
    assert json.loads(found.files["results.json"])[0]["gains"]

    assert main(["push", str(run), "me/small"]) == 0
    assert "nothing new" in capsys.readouterr().out
    assert len(found.commits) == 2  # the hub's own, and one

    monkeypatch.setenv("HF_TOKEN", "")
    assert main(["pull", "me/small", "--out", "shared"]) == 0
    pulled = Path("shared/small")
    assert files_below(pulled) == {*sent["files"], "origin.json"}
    assert (pulled / ADAPTER).read_bytes() == (run / ADAPTER).read_bytes()
    assert main(["pull", "me/small", "--out", "shared"]) == 0
    assert "nothing was fetched" in capsys.readouterr().out
    before = (pulled / "metrics.jsonl").read_bytes()
    assert "a run cannot go on there" in faults(capsys, "train", pulled)
    assert (pulled / "metrics.jsonl").read_bytes() == before
    agent = f"tiny+{pulled / 'adapters/alice'}"
    assert main(["play", "nim-v0", agent, "random", "--quiet", "--max-new-tokens", "8"]) == 0

    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from srl_agents.models.sources.catalog import resolve

    base = AutoModelForCausalLM.from_pretrained(resolve("tiny"))
    model = PeftModel.from_pretrained(base, str(pulled / "adapters/alice"))
    assert "default" in model.peft_config


@pytest.mark.slow
def test_a_killed_push_shows_nothing_and_the_next_one_everything(hub: HubStub, run: Path) -> None:
    killed(hub, "PUT /lfs/", "push", run, "me/small", "--public")
    found = hub.repositories["models", "me/small"]
    assert found.private
    assert set(found.files) == {".gitattributes"}

    killed(hub, "/commit/", "push", run, "me/small", "--public")
    assert ADAPTER in found.files  # the hub had the whole commit already
    assert found.private
    process = srl(hub, "push", run, "me/small", "--public")
    output, _ = process.communicate()
    assert process.returncode == 0
    assert "nothing new" in output
    assert not found.private
    assert len(found.commits) == 2


@pytest.mark.slow
def test_a_killed_pull_leaves_no_folder_and_goes_on(
    hub: HubStub, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(run), "me/small"]) == 0
    killed(hub, f"GET /me/small/resolve/{hub.repositories['models', 'me/small'].commits[-1][0]}/"
           f"{ADAPTER}", "pull", "me/small")  # fmt: skip
    assert not Path("small").exists()
    kept = {name for name in files_below(Path(".small.pull")) if not name.startswith(".")}
    assert kept

    hub.asked.clear()
    assert main(["pull", "me/small"]) == 0
    again = {
        line.partition("/resolve/")[2][41:] for line in hub.asked if line.startswith("GET /me")
    }
    assert ADAPTER in again
    assert not again & kept
    assert not Path(".small.pull").exists()
    assert (Path("small") / ADAPTER).read_bytes() == (run / ADAPTER).read_bytes()


@pytest.mark.slow
def test_what_a_pull_cannot_trust_gets_no_name(
    hub: HubStub, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(run), "me/small"]) == 0
    key = ("models", "me/small")
    whole = dict(hub.repositories[key].files)

    def refused(changed: dict[str, bytes], says: str, *more: str) -> None:
        hub.commit(key, {**whole, **changed})
        assert says in faults(capsys, "pull", "me/small", *more)
        assert not Path("small").exists()

    def listed(changed: dict[str, bytes]) -> dict[str, bytes]:
        """With a list that fits, as another program could have written it."""
        files = {n: d for n, d in {**whole, **changed}.items() if n not in (MARK, ".gitattributes")}
        mark = json.loads(whole[MARK])
        mark["files"] |= mark_of(Parcel(kind="run", files=files))["files"]
        return {**changed, MARK: json.dumps(mark).encode()}

    other = bytearray(whole[ADAPTER])
    other[-1] ^= 1
    refused({ADAPTER: bytes(other)}, "is not the file that srl.json lists")
    refused({"metrics.jsonl": b""}, "was changed after `srl push`")
    config = json.loads(whole["adapters/alice/adapter_config.json"])

    def with_config(**keys: object) -> dict[str, bytes]:
        text = json.dumps({**config, **keys}).encode()
        return listed({"adapters/alice/adapter_config.json": text})

    refused(
        with_config(auto_mapping={"parent_library": "antigravity"}), "auto_mapping names a module"
    )
    refused(with_config(base_model_name_or_path="them/other"), "is for the base 'them/other'")
    coded = whole["recipe.yaml"].replace(b"kind: transformers", b"kind: 'theirs:Engine'", 1)
    assert coded != whole["recipe.yaml"]
    refused(listed({"recipe.yaml": coded}), "runs code from outside SRL", "--no-foreign-code")
    assert main(["pull", "me/small"]) == 0
    assert "theirs:Engine" in capsys.readouterr().out
    assert "theirs" not in sys.modules


@pytest.mark.slow
def test_runs_that_others_could_not_use_are_not_pushed(
    hub: HubStub, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, config = run / "recipe.yaml", run / "adapters/alice/adapter_config.json"
    text, plain = recipe.read_text(), config.read_text()

    config.write_text(plain.replace("null", '"some/base"', 1).replace(
        '"base_model_name_or_path": null', '"base_model_name_or_path": "some/base"'))  # fmt: skip
    assert "not the weights of this run" in faults(capsys, "push", run, "me/small")
    config.write_text(plain)

    recipe.write_text(text.replace("name: small", f"name: {OWNER_KEY}"))
    fault = faults(capsys, "push", run, "me/small")
    assert "recipe.yaml, line" in fault
    assert OWNER_KEY not in fault
    recipe.write_text(text)

    folder = Path("a-base").absolute()
    folder.mkdir()
    recipe.write_text(text.replace("model: tiny", f"model: {folder}"))
    config.write_text(json.dumps({**json.loads(plain), "base_model_name_or_path": str(folder)}))
    assert "--set model=OWNER/NAME" in faults(capsys, "push", run, "me/small")
    assert main(["push", str(run), "me/small", "--set", "model=them/base"]) == 0
    files = hub.repositories["models", "me/small"].files
    sent = json.loads(files["adapters/alice/adapter_config.json"])
    assert sent["base_model_name_or_path"] == "them/base"
    assert not any(str(folder).encode() in data for data in files.values())

    (run / "adapters/alice/adapter_model.safetensors").rename(run / "elsewhere")
    assert "no final weights of alice" in faults(capsys, "push", run, "me/small")
    (run / "adapters/alice/adapter_model.safetensors").symlink_to(run / "elsewhere")
    assert "symbolic link" in faults(capsys, "push", run, "me/small")


# --- the other side --------------------------------------------------------------------------


def test_wrong_partners_are_refused_in_one_line(
    hub: HubStub,
    board: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub.create("models", "them/model", {"config.json": b"{}", "model.safetensors": b"0"})
    assert "no srl.json" in faults(capsys, "pull", "them/model")
    hub.create("spaces", "me/chess", {".gitattributes": b"", "app.py": b"print()"})
    assert "app.py, which `srl push` did not write" in faults(capsys, "push", board, "me/chess")
    assert set(hub.repositories["spaces", "me/chess"].files) == {".gitattributes", "app.py"}
    assert "no repository me/nothing" in faults(capsys, "pull", "me/nothing")
    assert "no such commit" in faults(capsys, "pull", "them/model@v9")
    assert "give OWNER/NAME" in faults(capsys, "pull", "../../etc")
    assert "neither a run nor a board" in faults(capsys, "push", Path.cwd(), "me/x")

    hub.create("spaces", "them/games", {"README.md": b""})
    monkeypatch.setenv("HF_TOKEN", OTHER_KEY)
    assert "may not write there" in faults(capsys, "push", board, "them/games")
    monkeypatch.setenv("HF_TOKEN", "hf_2222nobody2222nobody2222nobody22")
    fault = faults(capsys, "push", board, "me/games")
    assert "does not know this key" in fault
    assert "nobody" not in fault
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(Path.cwd() / "none"))
    assert "no key of the hub" in faults(capsys, "push", board, "me/games")

    monkeypatch.setenv("HF_TOKEN", OWNER_KEY)
    monkeypatch.setattr(constants, "ENDPOINT", "http://hub.example")
    assert "without encryption" in faults(capsys, "push", board, "me/games")


def test_a_board_is_shown_pulled_and_verified(
    hub: HubStub, board: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(board), "me/games", "--public"]) == 0
    found = hub.repositories["spaces", "me/games"]
    assert not found.private
    assert b"sdk: static" in found.files["README.md"]
    assert {"index.html", "data.json", "board/board.json"} < set(found.files)
    assert "style.css" not in found.files  # of the page that the hub began with
    assert not any("lock" in name for name in found.files)

    assert main(["pull", "me/games"]) == 0
    capsys.readouterr()
    assert all(
        name.startswith("board/") for name in files_below(Path("games")) - {MARK, "origin.json"}
    )
    assert main(["leaderboard", "verify", "games/board", "--level", "L1"]) == 0
    site = ["--board", "games/board", "--fingerprint", FINGERPRINT, "--out", "site"]
    assert main(["leaderboard", "build", *site]) == 0
    assert Path("site/index.html").is_file()


def test_a_push_that_lost_a_race_changes_nothing(
    hub: HubStub, board: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = ("spaces", "me/games")
    hub.create(*key, {".gitattributes": b""})
    hub.on["/preupload/"] = lambda: hub.commit(key, {"index.html": b"theirs"})
    assert "another push was first" in faults(capsys, "push", board, "me/games")
    assert hub.repositories[key].files == {"index.html": b"theirs"}


# --- lists -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["league.db", "../recipe.yaml", "adapters/../x/README.md", "adapters/alice/model.bin",
     "adapters/alice/modeling.py", ".env", "/etc/passwd", "adapters/alice/README.md\n"],
)  # fmt: skip
def test_what_has_no_listed_name_neither_goes_nor_comes(name: str) -> None:
    with pytest.raises(ConfigError, match="not a file that a run is shared with"):
        packed(Parcel(kind="run", files={name: b""}))
    entry = {"bytes": 0, "sha256": "0" * 64}
    mark = json.dumps({"schema": 1, "kind": "run", "files": {name: entry}}).encode()
    with pytest.raises(ConfigError, match=r"is not what `srl push` writes"):
        read_mark(mark, "a/b")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda mark: {**mark, "schema": 2},
        lambda mark: {**mark, "kind": "other"},
        lambda mark: {**mark, "files": {"recipe.yaml": {"bytes": -1, "sha256": "0" * 64}}},
        lambda mark: {**mark, "files": {"recipe.yaml": {"bytes": 1, "sha256": "x"}}},
        lambda mark: {**mark, "files": ["recipe.yaml"]},
        lambda mark: [mark],
    ],
)
def test_a_damaged_list_is_refused(spoil: Callable[[dict[str, Any]], Any]) -> None:
    mark = mark_of(Parcel(kind="run", files={"recipe.yaml": b"a"}))
    assert read_mark(json.dumps(mark).encode(), "a/b").files["recipe.yaml"].bytes == 1
    with pytest.raises(ConfigError, match="a/b"):
        read_mark(json.dumps(spoil(mark)).encode(), "a/b")


@pytest.mark.parametrize(
    "text",
    ["key: hf_abcdefghijklmnopqrstuv", "sk-abcdefghijklmnopqrstuvwx", "url: https://me:word@host/v1",
     "-----BEGIN OPENSSH PRIVATE KEY-----", "from-this-environment"],
)  # fmt: skip
def test_a_text_with_a_key_stops_everything(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRL_ENDPOINT_API_KEY", "from-this-environment")
    packed(Parcel(kind="run", files={"recipe.yaml": b"url: https://host/v1"}))
    with pytest.raises(ConfigError, match=r"recipe.yaml, line 2") as fault:
        packed(Parcel(kind="run", files={"recipe.yaml": f"a: 1\n{text}".encode()}))
    assert text not in str(fault.value)
