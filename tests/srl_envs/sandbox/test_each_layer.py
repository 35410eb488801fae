"""Each layer blocks something that no other layer blocks.

Every case takes one layer out of a copy of the server's code. Its probe must come back clean from
the whole sandbox, and must find the hole in the other: so a test here fails when that layer is lost.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from srl_envs.errors import SandboxError
from srl_envs.sandbox import CodeExecutor, Limits
from tests.srl_envs.sandbox.tiers import executor_of, serving

LIMITS = Limits(cpu_s=0.3, wall_s=3.0, memory_mib=64, output_kib=64, files=32)


class Layer(NamedTuple):
    """One layer, how it is taken out, and what then comes through."""

    file: str
    there: str
    gone: str
    probe: str
    """A script that prints ``kept`` where the layer holds."""
    tier: str = "namespaces"
    granted: str = ""
    """Name among the executor's layers, where not every host grants it."""


def attempt(what: str, refused: str = "OSError") -> str:
    return f"""
import os, sys
try:
    {what}
    print("through")
except {refused}: print("kept")
"""


def at_most(most: int, name: str) -> str:
    return f"""
import resource
hard = resource.getrlimit(resource.{name})[1]
print("kept" if 0 <= hard <= {most} else "through")
"""


def unlimited(name: str) -> tuple[str, str, str]:
    return "confinement/layers.py", f'_limit("{name}"', f'_limit("{name}_NONE"'


def namespace(flag: str) -> tuple[str, str, str]:
    return "confinement/jail.py", f"    | kernel.{flag}\n", ""


LAYERS = {
    "read-only mounts": Layer(
        "confinement/jail.py",
        '    kernel.seal_mount("/", devices=True)\n',
        "",
        # the mount answers before Landlock does; the word mkdir lets the filter pass it
        "import os\ntry: os.mkdir('/x')\nexcept OSError as e: print('kept' if e.errno == 30 else 'through')",
    ),
    "process namespace": Layer(
        *namespace("CLONE_NEWPID"),
        "import os\nprint('kept' if os.getppid() == 1 else 'through')",
    ),
    "landlock": Layer(
        "confinement/layers.py",
        "            kernel.landlock_restrict(ruleset)\n",
        "            pass\n",
        attempt("os.listdir('/')"),
    ),
    "landlock without namespaces": Layer(
        "confinement/layers.py",
        "            kernel.landlock_restrict(ruleset)\n",
        "            pass\n",
        attempt("open('/etc/passwd')"),
        tier="landlock",
    ),
    "base filter": Layer(
        "confinement/layers.py",
        "    base.install()\n    sealed",
        "    sealed",
        attempt("__import__('socket').socket()"),
    ),
    "program filter": Layer(
        "confinement/layers.py",
        "            self.filters[scratch, request.processes > 1].install(os.getpid())\n",
        "            pass\n",
        attempt("os.fork() or os._exit(0)"),
    ),
    "sealed files": Layer(
        "confinement/filters.py",
        '        rules["open"] = rules["openat"] = error(errno.EACCES)\n',
        "        pass\n",
        attempt("open('/etc/passwd')"),
        tier="seccomp",
    ),
    "own user": Layer(
        "confinement/layers.py",
        "        _leave_root(confinement, uid, [os.__file__, *found.values()])\n",
        "        pass\n",
        "import os\nprint('through' if os.getuid() == 0 else 'kept')",
        tier="landlock",
        granted="own user",  # to root only
    ),
    "empty environment": Layer(
        "server.py",
        "    confine.occupy()\n",
        "    confine.occupy()\n    os.environ['SRL_TOKEN'] = 'secret'\n",
        "import os\nprint('through' if 'SRL_TOKEN' in os.environ else 'kept')",
    ),
    "closed descriptors": Layer(
        "confinement/layers.py",
        "        self._close()\n        self._limit(request)",
        "        self._limit(request)",
        attempt("os.fstat(6)"),
    ),
    "memory limit": Layer(
        "confinement/layers.py",
        '            _limit("RLIMIT_AS", self.base_bytes + request.memory_bytes, required=True)\n',
        "            pass\n",
        attempt("__import__('mmap').mmap(-1, 200 << 20)"),  # touches none of it: no processor time
    ),
    "output limit": Layer(
        *unlimited("RLIMIT_FSIZE"),
        attempt("[os.pwrite(1, b' ' * 100000, n * 100000) for n in range(9)]"),
    ),
    "descriptor limit": Layer(
        *unlimited("RLIMIT_NOFILE"), attempt("[os.pipe() for _ in range(40)]")
    ),
    "thread limit": Layer(*unlimited("RLIMIT_NPROC"), at_most(4096, "RLIMIT_NPROC")),
    "kernel's processor limit": Layer(*unlimited("RLIMIT_CPU"), at_most(10, "RLIMIT_CPU")),
    "no locked memory": Layer(
        "confinement/layers.py", '"RLIMIT_MEMLOCK", ', "", at_most(0, "RLIMIT_MEMLOCK")
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole() -> Iterator[Callable[[str], CodeExecutor]]:
    """The sandbox with all its layers: tier -> executor."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda tier: stack.enter_context(executor_of(tier, LIMITS)))


def found(layer: Layer, executor: CodeExecutor) -> str:
    (outcome,) = executor.run_stdin(layer.probe, [""])
    return outcome.stdout.strip() or outcome.message


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_each_layer_keeps_out_what_comes_through_without_it(
    name: str, whole: Callable[[str], CodeExecutor], without: Callable[..., None]
) -> None:
    layer = LAYERS[name]
    if layer.granted and layer.granted not in whole(layer.tier).layers:
        pytest.skip(f"this host does not grant {layer.granted!r}")
    assert found(layer, whole(layer.tier)) == "kept"
    without((layer.file, layer.there, layer.gone))
    with executor_of(layer.tier, LIMITS) as executor:
        assert found(layer, executor) == "through"


def test_a_root_that_is_not_private_is_noticed_before_anything_runs(
    whole: Callable[[str], CodeExecutor], without: Callable[..., None]
) -> None:
    root = Layer(
        "", "", "", "import os\nprint('through' if os.path.exists('/etc/passwd') else 'kept')"
    )
    assert found(root, whole(root.tier)) == "kept"
    without(
        ("confinement/jail.py", "    kernel.pivot_root(_NEW_ROOT, _NEW_ROOT + _OLD)", "    return")
    )
    with pytest.raises(SandboxError, match="without effect"):
        CodeExecutor(LIMITS, isolation="namespaces")


def links(executor: CodeExecutor) -> dict[str, str]:
    """The namespaces of the process that serves, seen from outside."""
    return {
        path.name: os.readlink(path) for path in Path(f"/proc/{serving(executor)}/ns").iterdir()
    }


def capabilities(tier: str) -> set[int]:
    """The sets of the process that programs are forked from, but for the bounding set."""
    with executor_of(tier, LIMITS) as executor:
        lines = Path(f"/proc/{serving(executor)}/status").read_text().splitlines()
    return {int(line.split()[1], 16) for line in lines if re.match("Cap(Inh|Prm|Eff|Amb)", line)}


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["namespaces", "landlock", "seccomp"])
def test_capabilities_are_gone(tier: str, without: Callable[..., None]) -> None:
    """From the server, those aside with which it makes runs other users, and ends them."""
    users = 1 << 5 | 1 << 7 if os.getuid() == 0 else 0
    assert capabilities(tier) <= {0, users}
    if tier == "namespaces":  # whose user namespace gives them to everybody
        drop = "            kernel.Dropping(but_users=but_users)()\n"
        without(("confinement/layers.py", drop, "            pass\n"))
        assert not capabilities(tier) <= {0, users}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ipc", "net", "user", "uts", "mnt", "pid"])
def test_each_namespace_is_another_one(
    name: str, whole: Callable[[str], CodeExecutor], without: Callable[..., None]
) -> None:
    if os.getuid() != 0:
        pytest.skip("the links are readable by root only")
    ours = os.readlink(f"/proc/self/ns/{name}")
    assert links(whole("namespaces"))[name] != ours
    if name not in ("ipc", "net"):
        return  # the tier cannot be entered without the others
    without(namespace(f"CLONE_NEW{name.upper()}"))
    with CodeExecutor(LIMITS, isolation="namespaces") as executor:
        assert links(executor)[name] == ours


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "gone", "program"),
    [
        ("            if used >= request.cpu_s:", "            if False:", "while True: pass"),
        (
            "            elif now - live.started >= request.wall_s:",
            "            elif False:",
            "import time\ntime.sleep(6)",
        ),
    ],
    ids=["processor time", "wall time"],
)
def test_the_clocks_outside_end_what_would_go_on(
    what: str, gone: str, program: str, without: Callable[..., None]
) -> None:
    with CodeExecutor(LIMITS) as executor:
        (outcome,) = executor.run_stdin(program, [""])
        assert (outcome.status, outcome.cpu_s < 1.5) == ("timeout", True)
    without(("server.py", what, gone))
    with CodeExecutor(LIMITS) as executor:
        (outcome,) = executor.run_stdin(program, [""])
    assert outcome.status == "ok" or outcome.cpu_s > 1.5 or "s of cpu" not in outcome.message
