"""No code of ours unpickles what another process wrote; each exception is named with its reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("srl_agents", "srl_envs", "leaderboards", "benchmarks")
READERS = {
    ("pickle", "loads"), ("pickle", "load"), ("pickle", "Unpickler"), ("marshal", "loads"),
    ("marshal", "load"), ("shelve", "open"), ("dill", "loads"), ("cloudpickle", "loads"),
    ("joblib", "load"), ("torch", "load"), ("distributed", "all_gather_object"),
    ("distributed", "gather_object"), ("distributed", "broadcast_object_list"),
    ("distributed", "scatter_object_list"), ("distributed", "recv_object_list"),
    ("dist", "all_gather_object"), ("dist", "broadcast_object_list"), ("np", "load"),
    ("numpy", "load"), ("multiprocessing", "Queue"), ("mp", "Queue"), ("context", "Queue"),
}  # fmt: skip
POOLS = {"ProcessPoolExecutor", "Pool"}
"""They unpickle what their children return."""
METHODS = {"recv"}
"""Of a multiprocessing connection; ``recv_bytes`` and sockets' ``recv_into`` read bytes."""
NAMED = re.compile(rf"\b({'|'.join({*POOLS, *METHODS, *(name for _, name in READERS)})})\s*\(")
EXCEPTIONS = {
    "srl_envs/vector/channel.py": "a socket pair between a vector and the children that it starts "
    "itself, which play the games that its own process makes, too; infos may hold any value of a game, "
    "and JSON for those that are plain costs a worker 1.2 to 1.4 times its time "
    "(benchmarks.speed.vector_messages)",
    "srl_envs/vector/worker.py": "likewise",
    "srl_envs/vector/vector_env.py": "likewise",
    "srl_envs/testing/copies.py": "copies an environment in one process, as a promise to users",
    "srl_envs/redteam/probes/claims.py": "likewise",
    "srl_agents/testing/transport_kit.py": "a test kit and the child that it starts itself",
    "benchmarks/rewards/format_checking.py": "a benchmark and the child that it starts itself",
    "benchmarks/speed/transports.py": "likewise",
}


def readings(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that unpickle, with what they are named by."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in POOLS:
            yield node
        if not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
        safe = any(
            (word.arg, getattr(word.value, "value", None))
            in {("weights_only", True), ("allow_pickle", False)}
            for word in node.keywords
        )
        if ((name, node.func.attr) in READERS and not safe) or (
            node.func.attr in METHODS and len(node.args) == 0
        ):
            yield node


def found_in(path: Path) -> list[int]:
    text = path.read_text()
    if not NAMED.search(text):  # parsing all files takes seconds
        return []
    return [call.lineno for call in readings(ast.parse(text))]


def test_only_named_files_unpickle() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if (lines := found_in(path))
    }
    assert set(found) == set(EXCEPTIONS), found


def test_the_rule_sees_each_kind_of_reading() -> None:
    source = "\n".join(
        [
            "pickle.loads(x)",
            "torch.load(x)",
            "self.pipe.recv()",
            "distributed.all_gather_object(a, b)",
            "ProcessPoolExecutor(2)",
        ]
    )
    assert len(list(readings(ast.parse(source)))) == 5
    assert all(NAMED.search(line) for line in source.split("\n"))
    safe = "torch.load(x, weights_only=True)\nnp.load(x, allow_pickle=False)\npipe.recv_bytes()"
    assert not list(readings(ast.parse(safe)))
