"""With ``--no-foreign-code`` no file makes us import code; every place that could is listed here."""

from __future__ import annotations

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import srl_envs
from srl_agents.cli.main import main
from srl_agents.engines.settings import ENGINES
from srl_agents.engines.vllm.settings import VLLMSettings
from srl_agents.kinds import Kinds
from srl_agents.models.sources import catalog
from srl_envs import foreign_code
from srl_envs.errors import ConfigError, ForeignCodeError, ModelError
from srl_envs.reading.potentials import OWN, find_potential
from srl_envs.reading.wrapper_kinds import WRAPPERS
from srl_envs.rewards import Rubric

ROOT = Path(__file__).parent.parent
PACKAGES = ("srl_agents", "srl_envs", "leaderboards")
INSIDE = ROOT / "srl_envs" / "sandbox" / "inside"
"""Runs in the sandbox's own processes, under its limits."""
DOORS = {
    "import_module", "__import__", "exec", "eval", "exec_module", "load_module", "run_module",
    "run_path", "spec_from_file_location", "entry_points", "from_pretrained", "find_spec",
    "unsafe_load", "full_load", "extractall", "CDLL", "load_extension",
}  # fmt: skip
"""Calls that import, run or find code. What unpickles is in `test_unpickling`."""
EXCEPTIONS = {
    "srl_envs/foreign_code.py": "the rule itself",
    "srl_agents/kinds.py": "lists names; loads through the rule",
    "srl_envs/registry.py": "installed packages, filtered by the rule",
    "srl_envs/redteam/attack.py": "likewise",
    "leaderboards/protocol.py": "likewise",
    "srl_agents/cli/main.py": "commands, which the user types",
    "srl_agents/cli/completion/tree.py": "installed commands, filtered by the rule",
    "srl_agents/models/pretrained.py": "folders of models, as data",
    "srl_agents/models/model_loading.py": "a generation configuration, which holds no code",
    "srl_agents/trainers/verification/independent/plain_policy.py": "a folder of a model, as data",
    "srl_agents/models/sources/smollm2.py": "SRL's own model, from a pinned package",
    "srl_agents/models/memory/host_allocator.py": "the C library of the machine",
    "srl_agents/__init__.py": "modules that our own code names",
    "srl_agents/testing/__init__.py": "modules that our own code names",
    "srl_agents/training/rehearsal/seams.py": "modules that our own code names",
    "srl_agents/whole_import.py": "modules that our own code names",
    "srl_agents/metrics/trackers.py": "one of two names, which a type lists",
    "srl_agents/models/installed.py": "finds packages of a fixed list",
    "srl_envs/gymnasium_ids.py": "Gymnasium's own registry",
    "srl_envs/redteam/worker.py": "SRL's own suite of attacks",
    "srl_envs/rewards/math_verify.py": "finds packages of a fixed list",
    "leaderboards/provenance.py": "the module of a registered environment",
}


def doors(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls whose argument is not a literal or a module below one of ours."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        method = name in ("exec", "eval") and not isinstance(node.func, ast.Name)  # model.eval()
        if name in DOORS and not method and not (node.args and fixed(node.args[0])):
            yield node


def doors_of(path: Path) -> list[ast.Call]:
    text = path.read_text()
    named = any(f"{name}(" in text for name in DOORS)  # parsing all takes seconds
    return list(doors(ast.parse(text))) if named else []


def fixed(argument: ast.expr) -> bool:
    text = argument.values[0] if isinstance(argument, ast.JoinedStr) else argument
    if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
        return False
    return argument is text or text.value.startswith(("srl_agents.", "leaderboards."))


def test_every_door_is_listed_with_its_reason() -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if INSIDE not in path.parents and any(doors_of(path))
    }
    assert found == set(EXCEPTIONS)


def test_the_rule_sees_a_new_door() -> None:
    new = "importlib.import_module(name)\nexec(text)\nspec.loader.exec_module(m)\nX.from_pretrained(f)"
    assert len(list(doors(ast.parse(new)))) == 4
    ours = "importlib.import_module('re2')\nmodel.eval()\nimport_module(f'srl_agents.cli.{name}')"
    assert not list(doors(ast.parse(ours)))


def families() -> list[tuple[str, str]]:
    """Module and name of every `Kinds`, from the source, so that a new one is tested by existing."""
    found = []
    for path in (ROOT / "srl_agents").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).startswith(
                "Kinds["
            ):
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                found.append((module, ast.unparse(node.target)))
    return sorted(found)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A marker that exists as soon as the module ``planted`` was imported."""
    marker = tmp_path / "imported"
    (tmp_path / "planted.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Thing: ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(foreign_code.VARIABLE, "1")
    yield marker
    sys.modules.pop("planted", None)
    assert not marker.exists()


def test_families_are_found() -> None:
    assert len(families()) >= 8


@pytest.mark.parametrize(("module", "name"), families())
@pytest.mark.usefixtures("planted")
def test_every_family_of_a_recipe_refuses_code_and_takes_its_own(module: str, name: str) -> None:
    family: Kinds[object] = getattr(importlib.import_module(module), name)
    for target in ("planted:Thing", "srl_envs.redteam.programs.plain_python:run_script"):
        with pytest.raises(ForeignCodeError, match="refuses"):
            family.find(target)
    for known in family.built_in:
        family.find(known)


@pytest.mark.usefixtures("planted")
def test_potentials_wrappers_and_rubrics_refuse_code_and_take_their_own() -> None:
    for target in (
        "planted:Thing",
        "srl_envs.redteam.programs.plain_python:run_script",
        "os:system",
    ):
        with pytest.raises(ForeignCodeError):
            find_potential(target)
        with pytest.raises(ConfigError, match="refuses"):
            srl_envs.make("nim-v0", wrappers=[{"kind": target}])
        with pytest.raises(ConfigError, match="refuses"):
            srl_envs.make("nim-v0", wrappers=[{"kind": "PotentialShaping", "potential": target}])
        with pytest.raises(ConfigError, match=f"scorer {target!r} runs code"):
            Rubric.from_config({"parts": {"a": {"kind": target}}})
    for own in OWN:
        find_potential(own)
    srl_envs.make("nim-v0", wrappers=[{"kind": "TurnLimit", "steps": 3}])
    assert "TurnLimit" in WRAPPERS


def test_an_old_path_of_ours_names_its_successor() -> None:
    for old, new in (
        ("srl_agents.engines.vllm_settings:VLLMSettings", "srl_agents.engines.vllm.settings"),
        ("srl_agents.league.curriculum:CurriculumSettings", "srl_agents.league.curricula"),
    ):
        with pytest.raises(ModuleNotFoundError, match=rf"it moved: write {new}:\w+\)$"):
            foreign_code.load_entry_point(old)
    with pytest.raises(ModuleNotFoundError, match=r"no module 'srl_agents\.engines\.gone'"):
        foreign_code.load_entry_point("srl_agents.engines.gone:NeverThere")
    with pytest.raises(ConfigError, match=r"engine.*it moved: .*VLLMSettings\)\.$"):
        ENGINES.find("srl_agents.engines.vllm_settings:VLLMSettings")


@pytest.mark.usefixtures("planted")
def test_what_a_program_registered_is_refused_with_the_switch_on() -> None:
    with pytest.raises(ForeignCodeError):
        foreign_code.load_entry_point("planted:Thing")


@pytest.mark.parametrize(
    "setting",
    [
        "env='planted:Thing'",
        "engine={kind: 'planted:Thing'}",
        "training={algorithm: 'planted:Thing'}",
        "credit={level: turn, potential: 'planted:Thing'}",
        "wrappers=[{kind: 'planted:Thing'}]",
        "rewards={terms: {a: {kind: 'planted:Thing'}}}",
        "engine={kind: vllm, python: /bin/true}",
        "engine={kind: vllm, arguments: ['--trust-remote-code']}",
    ],
)
def test_a_recipe_is_refused_in_one_line(
    setting: str, planted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(foreign_code.VARIABLE)
    out = planted.with_name("run")
    arguments = ["train", "quickstart-tiny", "--out", str(out), "--set", setting]
    assert main([*arguments, "--no-foreign-code"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--no-foreign-code" in line
    assert ("planted:Thing" if "planted" in setting else "vllm") in line or "engine" in line
    assert foreign_code.VARIABLE not in os.environ


def test_the_switch_reaches_children_and_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from srl_envs import foreign_code; print(foreign_code.refused())"
    with foreign_code.refusing():
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert foreign_code.inherited() == {foreign_code.VARIABLE: "1"}
    assert done.stdout == "True\n"
    for value in ("", "0", "no", "False"):
        monkeypatch.setenv(foreign_code.VARIABLE, value)
        assert not foreign_code.refused()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(catalog.TINY, tmp_path / "model"))


def edit(path: Path, **entries: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


@pytest.mark.parametrize(
    ("file", "entries"),
    [
        ("config.json", {"auto_map": {"AutoModelForCausalLM": "modeling.Model"}}),
        ("config.json", {"attn_implementation": "owner/kernel"}),
        ("config.json", {"text_config": {"_attn_implementation": "owner/kernel"}}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["tokens.Tokenizer", None]}}),
    ],
)
def test_a_model_that_names_code_is_refused(
    file: str, entries: dict[str, object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.resolve(str(folder))
    edit(folder / file, **entries)
    catalog.resolve(str(folder))
    monkeypatch.setenv(foreign_code.VARIABLE, "1")
    with pytest.raises(ForeignCodeError, match=file):
        catalog.resolve(str(folder))


def test_weights_that_are_pickled_are_never_opened(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder / "model.bin")
    index = folder / "model.safetensors.index.json"
    for shard in ("model.bin", "../model.safetensors", "/model.safetensors"):
        index.write_text(json.dumps({"weight_map": {"a": shard}}))
        (folder.parent / "model.safetensors").touch()
        with pytest.raises(ModelError):
            catalog.resolve(str(folder))


def test_code_of_a_model_runs_with_the_switch_off_neither(folder: Path) -> None:
    """Transformers asks a terminal by itself whether to run it; without the answer it must stay out."""
    from srl_agents.models.chat import ChatTokenizer
    from srl_agents.models.pretrained import empty_model

    marker = folder / "ran"
    (folder / "planted_code.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    edit(
        folder / "config.json",
        model_type="planted",
        auto_map={"AutoConfig": "planted_code.C", "AutoModelForCausalLM": "planted_code.M"},
    )
    with pytest.raises(ValueError, match=r"trust_remote_code|planted"):
        empty_model(folder)
    edit(
        folder / "tokenizer_config.json",
        tokenizer_class="PlantedTokenizer",
        auto_map={"AutoTokenizer": ["planted_code.T", None]},
    )
    with pytest.raises(ModelError):
        ChatTokenizer.load(folder)
    assert not marker.exists()


def test_a_chat_template_is_rendered_in_a_sandbox(folder: Path) -> None:
    from srl_agents.models.chat import ChatTokenizer

    template = "{{ ''.__class__.__mro__[1].__subclasses__() }}{{ messages[0].content }}"
    for path in folder.glob("chat_template*"):
        path.unlink()
    edit(folder / "tokenizer_config.json", chat_template=template)
    with pytest.raises(Exception, match=r"unsafe|undefined"):
        ChatTokenizer.load(folder).encode_prompt("hello")


def test_vllm_takes_its_interpreter_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(foreign_code.VARIABLE, "1")
    with pytest.raises(ForeignCodeError, match="SRL_VLLM_PYTHON"):
        VLLMSettings(python=sys.executable)
    VLLMSettings(url="http://127.0.0.1:8000")
