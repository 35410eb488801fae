"""Bugs planted into the source that a rehearsal runs: how many does the rehearsal catch?

    python -m benchmarks.memory.planted_bugs [--draws 10] [--seed 0] [--out FILE]

First the rehearsal runs without a bug and notes which places of the source it reaches, and what tensors it
finds there. Then one process per bug runs the same rehearsal over a changed source: three bugs with a name,
and for every kind of bug so many places, drawn from those at which the bug changes something. The rehearsal
reads the changed source as its own. A bug is caught where the rehearsal ends with an error, or where it
differs from the plan or from the recorded rehearsal by more than `found_by` allows.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import importlib.machinery
import importlib.util
import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

RESULTS = Path(__file__).parents[1] / "results/planted_bugs.json"
OURS = (
    "srl_agents.coordination.gradients",
    "srl_agents.engines.embedded.decoding",
    "srl_agents.engines.embedded.prefix_tree",
    "srl_agents.engines.embedded.row_attention",
    "srl_agents.engines.token_choice",
    "srl_agents.models.base_model",
    "srl_agents.models.playing_model",
    "srl_agents.trainers.grpo",
    "srl_agents.trainers.learner",
    "srl_agents.trainers.mixed_gradients",
    "srl_agents.trainers.passes.attention_reach",
    "srl_agents.trainers.passes.row_positions",
    "srl_agents.trainers.passes.shared_prefixes",
    "srl_agents.trainers.passes.token_head",
    "srl_agents.trainers.policy_gradient",
)
LIBRARIES = (
    "peft.tuners.lora.layer",
    "transformers.models.qwen2.modeling_qwen2",
    "trl.trainer.grpo_trainer",
    "trl.trainer.utils",
)
MODULES = (*OURS, *LIBRARIES)
"""Modules that get bugs: what a learning step and the engine run."""
KINDS = ("wrong device", "forgotten .to", "float32 upcast", "kept activation", "missing no_grad")
_CALLED = "_planted_{}"
"""Names of this module's functions in changed source."""


@dataclass(frozen=True, slots=True)
class Named:
    """A bug that is written by hand: text that is replaced."""

    module: str
    before: str
    after: str


NAMED = {
    "a CPU tensor in a loss": Named(
        "srl_agents.trainers.policy_gradient",
        'mask_RT = used["tool_mask"].bool()',
        'mask_RT = used["tool_mask"].bool() & torch.ones(used["tool_mask"].shape, dtype=torch.bool)',
    ),
    "a forgotten .to": Named(
        "srl_agents.models.playing_model",
        "return (owner_N1 != of_column).to(self.device)",
        "return owner_N1 != of_column",
    ),
    "logits materialised": Named(
        "srl_agents.trainers.policy_gradient",
        "return layout.rows(output.log_probs), layout.rows(output.entropy)",
        "logits = model(**inputs).logits.float().log_softmax(-1)\n"
        "        picked = logits.gather(-1, layout.labels_GL.clamp(min=0)[..., None])[..., 0]\n"
        "        return layout.rows(picked), layout.rows(output.entropy)",
    ),
}
CASE: dict[str, Any] = {
    "recipe": "qwen2.5-0.5b-laptop",
    "overrides": (
        "engine={kind: transformers}",
        "learners=[alice]",
        "rollout={start_states: 8, group_size: 8, max_new_tokens: 128, batch_rows: 64, concurrency: 64}",
        "training={learning_rate: 1.0e-5, optimizer: adamw_8bit, micro_batch_rows: 16, "
        "gradient_checkpointing: true}",
    ),
    "device": "24GB",
    "layers": 4,
}
"""A shape of few layers at which activations are as large as weights."""


# Places


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the source, and what the rehearsal found there."""

    kind: str
    module: str
    line: int
    column: int
    source: str
    size: int = 0
    """Most bytes of a tensor there."""

    @property
    def key(self) -> str:
        """Name of the place in changed source."""
        return f"{self.kind}|{self.module}|{self.line}|{self.column}"


class Planter(ast.NodeTransformer):
    """Changes the source of a module at its places.

    Args:
        module: its name.
        change: (kind, node) -> changed node, for each place.
    """

    def __init__(self, module: str, change: Callable[[Site, Any], Any]) -> None:
        self._module, self._change = module, change

    def _at(self, kind: str, node: Any, inner: Any) -> Any:
        text = ast.unparse(node).partition("\n")[0]
        site = Site(kind, self._module, node.lineno, node.col_offset, text[:100])
        return self._change(site, inner)

    def visit_Call(self, node: ast.Call) -> Any:
        """Devices, `.to` and `.detach`."""
        original = copy.deepcopy(node)
        inner: Any = self.generic_visit(node)
        named = inner.func.attr if isinstance(inner.func, ast.Attribute) else ""
        if any(keyword.arg == "device" for keyword in inner.keywords):
            inner = self._at("wrong device", original, inner)
        elif named == "to" and inner.args:
            inner = self._at("forgotten .to", original, inner)
        elif named == "detach" and not inner.args:
            inner = self._at("missing no_grad", original, inner)
        return inner

    def visit_With(self, node: ast.With) -> Any:
        """Blocks without gradients."""
        inner: Any = self.generic_visit(node)
        for item in inner.items:
            if _stops_gradients(item.context_expr):
                item.context_expr = self._at(
                    "missing no_grad", item.context_expr, item.context_expr
                )
        return inner

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Functions without gradients; default values and decorators stay as they are."""
        node.body = [self.visit(child) for child in node.body]
        node.decorator_list = [
            self._at("missing no_grad", one, one) if _stops_gradients(one) else one
            for one in node.decorator_list
        ]
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Values that get a name."""
        return self._valued(node)

    def visit_Return(self, node: ast.Return) -> Any:
        """Results."""
        return self._valued(node)

    def _valued(self, node: Any) -> Any:
        original: Any = copy.deepcopy(node)
        inner: Any = self.generic_visit(node)
        if isinstance(original.value, ast.Call | ast.BinOp | ast.Subscript | ast.IfExp):
            for kind in ("float32 upcast", "kept activation"):
                inner.value = self._at(kind, original, inner.value)
        return inner


def _stops_gradients(node: ast.expr) -> bool:
    return ast.unparse(node) in ("torch.no_grad()", "torch.inference_mode()")


def _call(name: str, *arguments: Any, keywords: Sequence[ast.keyword] = ()) -> ast.Call:
    made = [ast.Constant(a) if isinstance(a, str) else a for a in arguments]
    return ast.Call(ast.Name(_CALLED.format(name), ast.Load()), made, list(keywords))


def noting(site: Site, node: Any) -> Any:
    """The place as it is, which also notes what is there."""
    _SITES[site.key] = site
    if site.kind == "forgotten .to":
        return _call("note_to", site.key, node.func.value, *node.args, keywords=node.keywords)
    if site.kind == "missing no_grad" and site.source.endswith(".detach()"):
        return _call("note_detach", site.key, node.func.value)
    return _call("note", site.key, node)


def planting(key: str) -> Callable[[Site, Any], Any]:
    """Changes one place."""

    def change(site: Site, node: Any) -> Any:
        if site.key != key:
            return node
        if site.kind == "wrong device":
            for keyword in node.keywords:
                if keyword.arg == "device":
                    keyword.value = ast.Constant("cpu")
            return node
        if site.kind == "forgotten .to":
            return node.func.value
        if site.kind == "missing no_grad":
            return node.func.value if node.func.attr == "detach" else _call("nothing")
        return _call("upcast" if site.kind == "float32 upcast" else "keep", node)

    return change


# Inside of the process that rehearses

_SITES: dict[str, Site] = {}
_NOTED: dict[str, int] = {}
_KEPT: list[Any] = []


def _on_card(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.device.type == "card"


def _note(key: str, value: Any) -> Any:
    kind = key.partition("|")[0]
    if kind == "missing no_grad":
        _NOTED[key] = 0
    elif _on_card(value) and value.dim() and (kind != "float32 upcast" or _half(value)):
        _NOTED[key] = max(_NOTED.get(key, 0), value.nbytes)
    return value


def _note_to(key: str, value: Any, *arguments: Any, **options: Any) -> Any:
    out = value.to(*arguments, **options)
    if _on_card(out) and not _on_card(value) and out.dim():
        _NOTED[key] = max(_NOTED.get(key, 0), out.nbytes)
    return out


def _note_detach(key: str, value: Any) -> Any:
    if _on_card(value) and value.requires_grad:
        _NOTED[key] = max(_NOTED.get(key, 0), value.nbytes)
    return value.detach()


def _half(value: Any) -> bool:
    return str(value.dtype) == "torch.bfloat16"


def _upcast(value: Any) -> Any:
    return value.float() if _on_card(value) and _half(value) else value


def _keep(value: Any) -> Any:
    if _on_card(value):
        _KEPT.append(value)
    return value


class _Nothing:
    """Replaces `torch.no_grad()`, as a context and as a decorator."""

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def __call__(self, function: Any) -> Any:
        return function


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module from changed source."""

    def __init__(self, name: str, path: str, change: Callable[[Site, Any], Any], bug: str) -> None:
        super().__init__(name, path)
        self._change, self._named = change, NAMED.get(bug)

    def get_code(self, fullname: str) -> CodeType:
        """Never from the cache of bytecode."""
        text = self.get_data(self.path).decode("utf-8")
        named = self._named
        if named is not None and named.module == fullname:
            if text.count(named.before) != 1:
                raise ValueError(f"{fullname}: expected {named.before!r} once.")
            text = text.replace(named.before, named.after)
        tree = ast.fix_missing_locations(Planter(fullname, self._change).visit(ast.parse(text)))
        return compile(tree, self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, change: Callable[[Site, Any], Any], bug: str) -> None:
        self._change, self._bug = change, bug

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Specifications of the modules that get bugs."""
        if fullname not in MODULES:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if found is None or found.origin is None:
            return None
        loader = _Loader(fullname, found.origin, self._change, self._bug)
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=loader)


def _inside(bug: str) -> None:
    """Rehearse what standard input asks for, over changed source; without a bug, note the places."""
    from srl_agents.memory import architecture
    from srl_agents.training.rehearsal import own_process

    asked = json.load(sys.stdin)
    sys.stdin = io.StringIO(json.dumps(asked))
    published = architecture.shipped()
    for entry in published.values():
        entry["config"] |= {"num_hidden_layers": asked["layers"]}
    architecture.shipped = lambda: copy.deepcopy(published)

    functions = {"note": _note, "note_to": _note_to, "note_detach": _note_detach, "upcast": _upcast,
                 "keep": _keep, "nothing": _Nothing}  # fmt: skip
    for name, function in functions.items():
        setattr(builtins, _CALLED.format(name), function)
    sys.meta_path.insert(0, _Finder(planting(bug) if bug else noting, bug))
    own_process.main()
    if not bug:
        rows = [asdict(site) | {"size": _NOTED.get(key, -1)} for key, site in _SITES.items()]
        print(json.dumps(rows), file=sys.stderr)


# Outside of it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rehearsal over changed source gave."""

    error: str = ""
    """Last line; empty if it ended well."""
    rehearsal: dict[str, Any] = field(default_factory=dict)
    places: tuple[Site, ...] = ()
    """Of the rehearsal without a bug: those that it reached, with the size of what is there."""
    unreached: int = 0


def run(bug: str, case: dict[str, Any] = CASE) -> Outcome:
    """Rehearse over source with a bug, or without.

    Args:
        bug: the key of a place or a name in `NAMED`; empty for none.
        case: recipe, overrides and device.
    """
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--inside", bug]
    done = subprocess.run(
        command, input=json.dumps(case), capture_output=True, text=True, check=False
    )
    if done.returncode:
        return Outcome(error=next(x for x in reversed(done.stderr.splitlines()) if x.strip()))
    rehearsal = json.loads(done.stdout.splitlines()[-1])
    if bug:
        return Outcome(rehearsal=rehearsal)
    sites = [Site(**row) for row in json.loads(done.stderr.splitlines()[-1])]
    reached = tuple(site for site in sites if site.size >= 0)
    return Outcome(rehearsal=rehearsal, places=reached, unreached=len(sites) - len(reached))


UNDER, OVER = 0.9, 1.1
"""Plan divided by rehearsal, beyond which the plan finds a bug."""
CHANGED = 0.01
"""Part of a peak, or of operations in float32: a change that a record finds."""


def found_by(healthy: dict[str, Any], bug: Outcome) -> str:
    """How a bug is caught, by the first that finds it; empty where it is missed."""
    if bug.error:
        return "devices" if "device" in bug.error else "error"
    phases = bug.rehearsal["phases"]
    if any(not UNDER < own["planned"] / own["rehearsed"] < OVER for own in phases.values()):
        return "plan"
    if any(own["left"] > healthy[name]["left"] for name, own in phases.items()):
        return "left behind"
    if change(healthy, bug) > CHANGED:
        return "record"
    if any(
        own["wide_flops"] - healthy[name]["wide_flops"] > CHANGED * max(own["flops"], 1.0)
        for name, own in phases.items()
    ):
        return "float32 products"
    return ""


def change(healthy: dict[str, Any], bug: Outcome) -> float:
    """Largest change of a peak, as a part of it."""
    phases = bug.rehearsal.get("phases", {})
    return max(
        (abs(own["rehearsed"] / healthy[name]["rehearsed"] - 1.0) for name, own in phases.items()),
        default=0.0,
    )


def drawn(places: Sequence[Site], draws: int, seed: int) -> list[Site]:
    """So many places for each kind of bug, without repetition; all where there are fewer."""
    rng = np.random.default_rng(seed)
    chosen: list[Site] = []
    for kind in KINDS:
        own = [site for site in places if site.kind == kind]
        picked = rng.choice(len(own), size=min(draws, len(own)), replace=False)
        chosen += [own[number] for number in sorted(picked)]
    return chosen


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines of Markdown: bugs by kind, and what caught them."""
    ways = ("devices", "error", "plan", "left behind", "record", "float32 products", "")
    lines = [
        f"| bug | planted | {' | '.join(way or 'missed' for way in ways)} |",
        "|---|--:|" + "--:|" * len(ways),
    ]
    for kind in ("with a name", *KINDS, "all drawn"):
        own = [row for row in rows if kind in (row["kind"], "all drawn" * (row["kind"] in KINDS))]
        counts = [sum(row["found_by"] == way for row in own) for way in ways]
        lines.append(f"| {kind} | {len(own)} | {' | '.join(map(str, counts))} |")
    return lines


def main(argv: list[str] | None = None) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=10, help="of each kind of bug")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="rehearsals at the same time")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.inside is not None:
        _inside(options.inside)
        return 0
    first = run("")
    if first.error:
        print(f"the rehearsal without a bug failed: {first.error}", file=sys.stderr)
        return 1
    healthy = first.rehearsal["phases"]
    bugs = [("with a name", name, name, 0) for name in NAMED]
    bugs += [
        (site.kind, site.key, f"{site.module}:{site.line} {site.source}", site.size)
        for site in drawn(first.places, options.draws, options.seed)
    ]
    rows: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for (kind, _, where, size), bug in zip(
            bugs, pool.map(run, [bug[1] for bug in bugs]), strict=True
        ):
            rows.append({
                "kind": kind, "place": where, "bytes": size, "found_by": found_by(healthy, bug),
                "error": bug.error, "change": round(change(healthy, bug), 5),
            })  # fmt: skip
            print(
                f"{rows[-1]['found_by'] or 'missed'}: {kind}, {where}", file=sys.stderr, flush=True
            )
    result = {
        "case": CASE, "seed": options.seed, "healthy": healthy, "places": len(first.places),
        "unreached": first.unreached, "rows": rows,
    }  # fmt: skip
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
