"""A look at a run as Prometheus' gauges: what `srl watch` shows."""

from __future__ import annotations

from srl_agents.metrics.prometheus import Gauge
from srl_agents.training.gauges.live_run import RunState, under


def gauges_of(state: RunState) -> list[Gauge]:
    """One gauge for each thing that a look has; what it has not is left out."""
    run = {"run": state.run}

    def each(name: str, what: str, label: str, values: dict[str, float]) -> Gauge:
        return Gauge(
            name=name, what=what, samples=[(run | {label: k}, v) for k, v in values.items()]
        )

    processes = {
        f"{process.role} {process.pid}": (
            run | {"role": process.role, "pid": str(process.pid)},
            process,
        )
        for process in state.processes
    }
    found = [
        Gauge(
            name="srl_done",
            what="Updates that were reported, or matches of a population that were stored",
            samples=[(run, float(state.done))],
        ),
        Gauge(
            name="srl_whole", what="Updates or matches in all", samples=[(run, float(state.whole))]
        ),
        Gauge(
            name="srl_silent_seconds",
            what="Since something was last written",
            samples=[] if state.silent_s is None else [(run, state.silent_s)],
        ),
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
    ]
    queues = {queue.name: queue for queue in state.queues}
    return [
        *found,
        each("srl_workers", "Workers of a cluster, by what they do", "doing", state.workers),
        each(
            "srl_queue_done",
            "Done of what waits",
            "queue",
            {k: float(q.done) for k, q in queues.items()},
        ),
        each(
            "srl_queue_whole",
            "All that waits",
            "queue",
            {k: float(q.whole) for k, q in queues.items()},
        ),
        each("srl_spent", "Tokens and seconds of processors so far", "limit", state.spent),
        each(
            "srl_staleness_steps", "Mean age of the rows learned from", "learner", state.staleness
        ),
        each(
            "srl_conductor_requests",
            "Requests of the last update, by the engine that they went to",
            "instance",
            under("requests/", state.conductor),
        ),
        Gauge(
            name="srl_conductor_known_block_share",
            what="Of the prompts' blocks of the last update, those that the chosen engine must have had",
            samples=[(run, v) for k, v in state.conductor.items() if k == "known_share"],
        ),
        Gauge(
            name="srl_conductor_moved_requests",
            what="Of the last update, those that another engine was asked for again",
            samples=[(run, v) for k, v in state.conductor.items() if k == "moved"],
        ),
        each(
            "srl_prompt_tokens",
            "Of the last update, by where their keys and values came from",
            "source",
            under("prompt_tokens/", state.cache),
        ),
        each(
            "srl_cache_hit_share",
            "Of the last update's prompt tokens, in the engine's cache and with one without limit",
            "cache",
            {
                "possible" if k.endswith("/possible") else "engine": v
                for k, v in state.cache.items()
                if k.startswith("cache_share")
            },
        ),
        each(
            "srl_cache_blocks",
            "Of vLLM's prefix cache, that came and went in the last update",
            "event",
            under("cache_blocks/", state.cache),
        ),
        each("srl_phase_share", "Of the last update's time", "phase", state.phases),
        each("srl_tokens_per_second", "In the last update", "work", state.rates),
        each("srl_seconds", "Of the last update", "work", state.seconds),
        Gauge(
            name="srl_versions",
            what="Versions that lie where engines open them",
            samples=[(run, float(state.versions))],
        ),
        each("srl_faults", "Met in the last update", "fault", dict.fromkeys(state.faults, 1.0)),
    ]
