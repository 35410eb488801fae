"""A look at a run as Prometheus' gauges: what `srl watch` shows."""

from __future__ import annotations

from collections.abc import Mapping

from srl_agents.metrics.prometheus import Gauge
from srl_agents.training.gauges.live_run import RunState, under


def gauges_of(state: RunState) -> list[Gauge]:
    """One gauge for each thing that a look has; what it has not is left out."""
    return [
        *_progress(state),
        *_processes(state),
        *_waiting(state),
        *_conductor(state),
        *_cache(state),
        *_speed(state),
        _one(state, "srl_versions", "Versions that lie where engines open them", state.versions),
        _each(
            state, "srl_faults", "Met in the last update", "fault", dict.fromkeys(state.faults, 1.0)
        ),
    ]


def _one(state: RunState, name: str, what: str, value: float | None) -> Gauge:
    """A gauge of one number; without a sample where it is unknown."""
    samples = [] if value is None else [({"run": state.run}, float(value))]
    return Gauge(name=name, what=what, samples=samples)


def _each(state: RunState, name: str, what: str, label: str, values: Mapping[str, float]) -> Gauge:
    """A gauge with a sample per key, which stands under the label."""
    samples = [({"run": state.run, label: key}, float(value)) for key, value in values.items()]
    return Gauge(name=name, what=what, samples=samples)


def _progress(state: RunState) -> list[Gauge]:
    done = "Updates that were reported, or matches of a population that were stored"
    return [
        _one(state, "srl_done", done, state.done),
        _one(state, "srl_whole", "Updates or matches in all", state.whole),
        _one(state, "srl_silent_seconds", "Since something was last written", state.silent_s),
    ]


def _processes(state: RunState) -> list[Gauge]:
    """Of this machine, each once although several names lead to it; then workers of a cluster."""
    processes = {
        f"{process.role} {process.pid}": (
            {"run": state.run, "role": process.role, "pid": str(process.pid)},
            process,
        )
        for process in state.processes
    }
    return [
        Gauge(
            name="srl_alive",
            what="Processes of the run on this machine",
            samples=[(labels, 1.0) for labels, _ in processes.values()],
        ),
        Gauge(
            name="srl_process_cores",
            what="CPU seconds per second since the look before",
            samples=[(labels, p.cores) for labels, p in processes.values() if p.cores is not None],
        ),
        Gauge(
            name="srl_process_memory_bytes",
            what="Resident memory",
            samples=[(labels, p.memory_mib * 2**20) for labels, p in processes.values()],
        ),
        _each(
            state, "srl_workers", "Workers of a cluster, by what they do", "doing", state.workers
        ),
    ]


def _waiting(state: RunState) -> list[Gauge]:
    """Queues, what was spent of limits, and how old rows were."""
    done = {queue.name: queue.done for queue in state.queues}
    whole = {queue.name: queue.whole for queue in state.queues}
    spent, staleness = (
        "Tokens and seconds of processors so far",
        "Mean age of the rows learned from",
    )
    return [
        _each(state, "srl_queue_done", "Done of what waits", "queue", done),
        _each(state, "srl_queue_whole", "All that waits", "queue", whole),
        _each(state, "srl_spent", spent, "limit", state.spent),
        _each(state, "srl_staleness_steps", staleness, "learner", state.staleness),
    ]


def _conductor(state: RunState) -> list[Gauge]:
    seen = state.conductor
    return [
        _each(
            state,
            "srl_conductor_requests",
            "Requests of the last update, by the engine that they went to",
            "instance",
            under("requests/", seen),
        ),
        _one(
            state,
            "srl_conductor_known_block_share",
            "Of the prompts' blocks of the last update, those that the chosen engine must have had",
            seen.get("known_share"),
        ),
        _one(
            state,
            "srl_conductor_moved_requests",
            "Of the last update, those that another engine was asked for again",
            seen.get("moved"),
        ),
    ]


def _cache(state: RunState) -> list[Gauge]:
    seen = state.cache
    return [
        _each(
            state,
            "srl_prompt_tokens",
            "Of the last update, by where their keys and values came from",
            "source",
            under("prompt_tokens/", seen),
        ),
        _each(
            state,
            "srl_cache_hit_share",
            "Of the last update's prompt tokens, in the engine's cache and with one without limit",
            "cache",
            {
                "possible" if key.endswith("/possible") else "engine": value
                for key, value in seen.items()
                if key.startswith("cache_share")
            },
        ),
        _each(
            state,
            "srl_cache_blocks",
            "Of vLLM's prefix cache, that came and went in the last update",
            "event",
            under("cache_blocks/", seen),
        ),
    ]


def _speed(state: RunState) -> list[Gauge]:
    return [
        _each(state, "srl_phase_share", "Of the last update's time", "phase", state.phases),
        _each(state, "srl_tokens_per_second", "In the last update", "work", state.rates),
        _each(state, "srl_seconds", "Of the last update", "work", state.seconds),
    ]
