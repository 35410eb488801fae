"""The cause of a server's end is found, though its log ends with the noise of its shutdown."""

from __future__ import annotations

import pytest

from srl_agents.engines.vllm.log import cause_in

NOISE = (
    """(APIServer pid=7) Traceback (most recent call last):
(APIServer pid=7)   File "api_server.py", line 1, in run_server
(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. Failed: {}
[W resource_tracker.py] leaked semaphore
"""
    + "shutting down\n" * 30
)


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            "(EngineCore pid=9) INFO 11-23 06:00:01 [core.py:12] Initializing\n"
            "(EngineCore pid=9) ERROR 11-23 06:00:02 [core.py:15] EngineCore failed to start.\n"
            "(EngineCore pid=9) ERROR 11-23 06:00:02 [core.py:15] ValueError: No room for the cache.\n",
            "ValueError: No room for the cache.",
        ),
        (
            "(APIServer pid=7) pydantic_core._pydantic_core.ValidationError: 1 validation error for M\n"
            "(APIServer pid=7)   Value error, max_model_len (9) is greater than 8 [type=value_error]\n",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for M\n"
            "  Value error, max_model_len (9) is greater than 8 [type=value_error]",
        ),
        (
            "vllm: error: unrecognized arguments: --odd\n",
            "vllm: error: unrecognized arguments: --odd",
        ),
        ("MemoryError\n", "MemoryError"),
        (
            "(EngineCore pid=9) (VllmWorker-0 pid=11) ERROR 11-23 06:00:02 [multiproc_executor.py:99] "
            "ValueError: Available memory on node 0 (9.1/23.5 GiB) on startup is less than desired CPU "
            "memory utilization (0.85, 19.9 GiB).\n"
            "(EngineCore pid=9) ERROR 11-23 06:00:03 [core.py:15] Exception: WorkerProc initialization "
            "failed due to an exception in a background process. See stack trace for root cause.\n"
            "KeyError: '/psm_6e1f'\n",
            "ValueError: Available memory on node 0 (9.1/23.5 GiB) on startup is less than desired CPU "
            "memory utilization (0.85, 19.9 GiB).",
        ),
        ("(VllmWorker-0 pid=11) Exception: no such device\n", "Exception: no such device"),
    ],
)
def test_the_first_exception_is_found_without_what_followed_from_it(log: str, cause: str) -> None:
    assert cause_in("INFO starting\n" + log + NOISE) == cause


def test_a_log_without_an_exception_is_reported_by_its_end() -> None:
    cause = cause_in("\n".join(f"line {n}" for n in range(99)))
    assert cause.splitlines() == [f"line {n}" for n in range(84, 99)]
