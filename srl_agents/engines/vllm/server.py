"""A real vLLM server as a child process: started, watched, restarted, stopped.

vLLM pins its own torch and transformers, so it lives in an environment of its own; SRL talks to it over
HTTP. Source of names and traps: vLLM 0.32.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx2

from srl_agents.engines.endpoint.providers import without_keys
from srl_agents.engines.vllm.answers import BASE
from srl_agents.engines.vllm.cache import command_line
from srl_agents.engines.vllm.events.prefix_cache import KVEvents
from srl_agents.engines.vllm.log import cause_of
from srl_agents.engines.vllm.memory_share import WITHOUT_TRAINER, share_of
from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.engines.waiting import Waiting
from srl_agents.own_folders import new_folder, remove_left
from srl_envs.child_imports import SAFE
from srl_envs.errors import DeadlineError, ModelError

_PROBE_S = 60.0
"""Limit for the interpreter to list what is installed."""
_CPU_TOKENS = 8192
"""Tokens of prompts in one step on a CPU, at least the longest prompt."""
_FIRST_REQUEST = {
    "model": BASE,
    "token_ids": [1],
    "sampling_params": {"max_tokens": 1, "temperature": 0.0},
}
"""Body of the request that ends a start: /health already answers before the server can sample."""


class VLLMServer:
    """One server process; it ends with this one.

    Args:
        settings: how to start it.
        log: file that its output is added to.
        say: shows a line, such as that it is started again.
        gpu_share: share of a GPU's memory, where ``memory_share`` is None.
    """

    def __init__(
        self,
        settings: VLLMServerSettings,
        log: Path,
        say: Callable[[str], None] = lambda line: None,
        gpu_share: float = WITHOUT_TRAINER,
    ) -> None:
        self.settings, self.log, self._say = settings, log, say
        self._gpu_share = gpu_share
        self.port = settings.port or _free_port(settings.host)
        self.url = f"http://{settings.host}:{self.port}"
        self.starts = 0
        """Number of times that it was started."""
        self.events: KVEvents | None = None
        """Events of its cache, with ``kv_events``."""
        self._folder = new_folder("vllm")
        """Folder for vLLM's temporary files, sockets above all; removed with the server."""
        if settings.kv_events:
            self.events = KVEvents(self._folder / "events")
        self._interpreter = settings.interpreter
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._log_from = 0
        """Bytes of the log before the last start."""

    @property
    def pid(self) -> int | None:
        """Process id of the server, while it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start it and wait for its first reply.

        Raises:
            ModelError: it ended before that; the text has the cause from its log.
            DeadlineError: it took longer than ``start_timeout_s``.
        """
        with self._lock:
            self._launch()
        self._wait()

    def revive(self) -> None:
        """Start it again if it has died; where it runs, nothing happens.

        Raises:
            ModelError: it died more often than ``restarts`` allows, or was closed.
            DeadlineError: it took longer than ``start_timeout_s``.
        """
        with self._lock:
            if self._closed:
                raise ModelError(f"{self.url} was closed.")
            if self.pid is not None:
                return
            if self.starts > self.settings.restarts:
                raise ModelError(
                    f"the vLLM server died {self.starts} times; see {self.log}.\n{self._cause()}"
                )
            self._say(
                f"the vLLM server died; starting it again ({self.starts} of {self.settings.restarts})"
            )
            self._launch()
        self._wait()

    def close(self) -> None:
        """End it and all of its processes."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
        if process is not None:
            _end(process)
        if self.events is not None:
            self.events.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self) -> None:
        self.starts += 1
        if self._process is not None:
            _end(self._process)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._log_from = log.tell()
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                start_new_session=True,
            )

    def _command(self) -> list[str]:
        settings = self.settings
        cpu_build = _is_cpu_build(self._interpreter)
        share = share_of(settings.memory_share, self._gpu_share, cpu=cpu_build)
        arguments = [
            *("--model", settings.model, "--served-model-name", BASE),
            *("--host", settings.host, "--port", str(self.port)),
            *("--max-num-seqs", str(settings.max_running), "--dtype", settings.dtype),
            *("--logprobs-mode", "processed_logprobs", "--scheduling-policy", "priority"),
            *("--gpu-memory-utilization", str(share)),
            "--enable-scale-out",
            "--enable-prompt-tokens-details",
            "--disable-uvicorn-access-log",
        ]
        if settings.lora_rank:
            arguments += ["--enable-lora", "--max-lora-rank", str(served_rank(settings.lora_rank))]
            # one more for the adapter of zeros that the base replies through
            arguments += ["--max-loras", str(settings.max_versions + 1)]
        if settings.max_length is not None:
            arguments += ["--max-model-len", str(settings.max_length)]
        if settings.block_tokens is not None:
            arguments += ["--block-size", str(settings.block_tokens)]
        if not settings.compiled:
            arguments.append("--enforce-eager")
        arguments += command_line(settings.cache.arguments(cpu_build=cpu_build))
        if self.events is not None:
            published = {"publisher": "zmq", "endpoint": f"ipc://{self.events.path}"}
            events = {"kv_events_config": {"enable_kv_cache_events": True, **published}}
            arguments += command_line(events)
        if cpu_build:
            longest = cpu_arguments(settings.max_length)["max_num_batched_tokens"]
            arguments += ["--no-enable-chunked-prefill"]
            arguments += ["--max-num-batched-tokens", str(longest)]
        return [self._interpreter, "-c", _ENDS_WITH_PARENT, *arguments, *settings.arguments]

    def _environment(self) -> Mapping[str, str]:
        own = {
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "VLLM_SERVER_DEV_MODE": "1",  # pause, resume, sleep
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }
        if len(str(self._folder)) + _SOCKET_NAME <= _LONGEST_ADDRESS:
            own["TMPDIR"] = own["VLLM_RPC_BASE_PATH"] = str(self._folder)
        if self.settings.cache_gib is not None:
            own["VLLM_CPU_KVCACHE_SPACE"] = str(self.settings.cache_gib)
        inherited = without_keys()
        for name in ("PYTHONPATH", "PYTHONHOME"):
            inherited.pop(name, None)
        return inherited | own | SAFE

    def _wait(self) -> None:
        wait = Waiting(
            f"the vLLM server at {self.url}, its first reply",
            self.settings.start_timeout_s,
            self._say,
        )
        with httpx2.Client(base_url=self.url, trust_env=False) as client:
            while True:
                if self.pid is None:
                    raise ModelError(f"the vLLM server ended; see {self.log}.\n{self._cause()}")
                left = wait.left_s
                if left <= 0:
                    raise DeadlineError(
                        f"the vLLM server gave no reply within {self.settings.start_timeout_s:g} s of its "
                        f"start; see {self.log}, or raise start_timeout_s.\n{self._cause()}"
                    )
                if _serves(client, min(left, wait.due_s)):
                    return
                wait.tick()
                time.sleep(min(0.2, left))

    def _cause(self) -> str:
        return cause_of(self.log, self._log_from)


_LONGEST_ADDRESS, _SOCKET_NAME = 107, 41
"""Characters of a socket's path (unix(7)), and of the name that vLLM gives one: a slash, an id, some more."""
_ENDS_WITH_PARENT = """
import os, runpy, signal, sys, threading, time
def watch():
    sys.stdin.buffer.read()  # ends when the process that started us does, however it does
    while others():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
def others():
    # kills them; but the resource tracker ends after us, and removes their shared memory by its names
    found = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if ours(pid)]
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return found
def ours(pid):
    try:
        fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
        tracks = b"resource_tracker" in open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        return False
    group = int(fields[2]) == os.getpgrp() and fields[0] not in "ZX"
    return group and pid != os.getpid() and not tracks
threading.Thread(target=watch, daemon=True).start()
sys.argv[0] = "vllm"
runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)
"""
"""The server's main module, beside a thread that ends its whole group with us."""


def _serves(client: httpx2.Client, timeout_s: float) -> bool:
    """Whether it samples a token."""
    try:
        if client.get("/health", timeout=min(5.0, timeout_s)).status_code != 200:
            return False
        found = client.post("/inference/v1/generate", json=_FIRST_REQUEST, timeout=timeout_s)
    except httpx2.TransportError:
        return False
    return found.status_code == 200


def _is_cpu_build(interpreter: str) -> bool:
    """Whether this environment has vLLM's build for CPUs."""
    program = "import importlib.metadata as m; m.version('vllm-cpu')"
    found = subprocess.run(
        [interpreter, "-c", program], capture_output=True, timeout=_PROBE_S, check=False,
        env={**without_keys(), **SAFE},
    )  # fmt: skip
    return found.returncode == 0


def cpu_arguments(max_length: int | None) -> dict[str, int]:
    """What vLLM's build for CPUs needs: 0.32 dies where a seeded request's prompt is read in parts."""
    longest = max(max_length or _CPU_TOKENS, _CPU_TOKENS)
    return {"enable_chunked_prefill": False, "max_num_batched_tokens": longest}


def served_rank(rank: int) -> int:
    """The smallest rank that vLLM serves and that holds adapters of this one."""
    return next((served for served in (8, 16, 32, 64, 128, 256, 320, 512) if served >= rank), rank)


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _end(process: subprocess.Popen[bytes], patience_s: float = 10.0) -> None:
    """Ask the whole group to end; then let it end itself, which leaves no shared memory; then kill it."""
    for wanted in (signal.SIGTERM, signal.SIGCONT, signal.SIGKILL):
        try:
            os.killpg(process.pid, wanted)
        except ProcessLookupError:
            break
        if wanted == signal.SIGCONT and process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(patience_s)
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
    remove_left()
