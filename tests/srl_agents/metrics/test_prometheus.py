"""The page that Prometheus reads: what was put in comes out of a parser of its format."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.metrics.prometheus import CONTENT_TYPE, Gauge, exposition, metrics_page
from srl_agents.training.gauges.live_run import Process, Queue, RunState
from srl_agents.training.gauges.scrape import gauges_of
from srl_envs.errors import ConfigError

LINE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
PAIR = re.compile(r'(\w+)="((?:[^"\\\n]|\\.)*)"')
UNDO = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parsed(page: str) -> list[tuple[str, dict[str, str], float]]:
    """Samples of a page, by the rules of the format."""
    found = []
    for line in page.removesuffix("\n").split("\n"):
        if line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        assert match, line
        labels = {
            key: re.sub(r"\\.", lambda m: UNDO[m[0]], value)
            for key, value in PAIR.findall(match[2] or "")
        }
        found.append((match[1], labels, float(match[3])))
    return found


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(["role", "pid"]), st.text()), st.floats(allow_nan=False)
        ),
        min_size=1,
    )
)
def test_what_is_said_is_read_back(samples: list[tuple[dict[str, str], float]]) -> None:
    page = exposition([Gauge(name="srl_x", what='a "thing"\nof \\ two lines', samples=samples)])
    assert parsed(page) == [("srl_x", labels, value) for labels, value in samples]


def test_names_that_prometheus_does_not_take_are_refused() -> None:
    with pytest.raises(ValueError, match="'srl x'"):
        exposition([Gauge(name="srl x", what="", samples=[({}, 1.0)])])
    with pytest.raises(ValueError, match="'a-b'"):
        exposition([Gauge(name="srl_x", what="", samples=[({"a-b": ""}, 1.0)])])


def test_a_look_at_a_run_is_served_anew_for_each_request() -> None:
    state = RunState(
        run="r", kind="league", done=2, whole=5, silent_s=1.5,
        processes=[
            Process(role="learner", pid=7, cores=0.5, memory_mib=2.0),
            Process(role="sandbox", pid=8, cores=None, memory_mib=1.0),
        ],
        queues=[Queue(name="matches of update 3", done=1, whole=4)],
        staleness={"alice": 1.25}, phases={"play": 0.75}, spent={"tokens": 900.0}, rates={"play": 400.0},
        seconds={"transfer of new versions": 0.01}, versions=3, faults=["loss_spike"],
        workers={"playing": 2.0, "lost": 1.0},
        conductor={"requests/0": 7.0, "requests/1": 5.0, "known_share": 0.75, "moved": 2.0},
        cache={"prompt_tokens": 9.0, "prompt_tokens/computed": 3.0, "cache_share": 0.5,
               "cache_share/possible": 0.6, "cache_blocks/stored": 4.0},
    )  # fmt: skip
    looks = []

    def page() -> str:
        looks.append(1)
        return exposition(gauges_of(state))

    with metrics_page("127.0.0.1", 0, page) as address:
        for _ in range(2):
            with urllib.request.urlopen(address) as answer:
                assert answer.headers["Content-Type"] == CONTENT_TYPE
                samples = parsed(answer.read().decode())
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.replace("/metrics", "/other"))
        port = int(address.split(":")[2].partition("/")[0])
        with (
            pytest.raises(ConfigError, match=f"--metrics-port {port}"),
            metrics_page("127.0.0.1", port, page),
        ):
            pass
    assert len(looks) == 2

    def gone() -> str:
        raise ConfigError("r holds no run.")

    with (
        metrics_page("127.0.0.1", 0, gone) as address,
        pytest.raises(urllib.error.HTTPError, match="503") as refused,
    ):
        urllib.request.urlopen(address)
    assert refused.value.read() == b"r holds no run.\n"
    values = {(name, *labels.values()): value for name, labels, value in samples}
    assert values[("srl_alive", "r", "learner", "7")] == 1.0
    assert values[("srl_process_memory_bytes", "r", "learner", "7")] == 2 * 2**20
    assert ("srl_process_cores", "r", "sandbox", "8") not in values
    assert values[("srl_queue_done", "r", "matches of update 3")] == 1.0
    assert values[("srl_queue_whole", "r", "matches of update 3")] == 4.0
    assert values[("srl_staleness_steps", "r", "alice")] == 1.25
    assert values[("srl_phase_share", "r", "play")] == 0.75
    assert values[("srl_spent", "r", "tokens")] == 900.0
    assert values[("srl_tokens_per_second", "r", "play")] == 400.0
    assert values[("srl_seconds", "r", "transfer of new versions")] == 0.01
    assert values[("srl_workers", "r", "playing")] == 2.0
    assert values[("srl_faults", "r", "loss_spike")] == 1.0
    assert values[("srl_done", "r")] == 2.0
    assert values[("srl_conductor_requests", "r", "1")] == 5.0
    assert values[("srl_conductor_known_block_share", "r")] == 0.75
    assert values[("srl_conductor_moved_requests", "r")] == 2.0
    assert values[("srl_prompt_tokens", "r", "computed")] == 3.0
    assert values[("srl_cache_hit_share", "r", "possible")] == 0.6
    assert values[("srl_cache_blocks", "r", "stored")] == 4.0
