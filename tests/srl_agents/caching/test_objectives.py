"""Admission by objectives: nothing is lost or starved, times between tokens are kept, order is repeatable."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.caching.objectives import Admission, Candidate, Objectives, StepTimes
from srl_envs.errors import ConfigError

OWN_S, ROW_S, TOKEN_S = 0.02, 0.005, 0.001
SECONDS = st.sampled_from([0.05, 0.2, 1.0])
WORK = st.lists(
    st.tuples(st.floats(0.0, 0.3), st.integers(1, 400), st.integers(1, 30)), min_size=1, max_size=40
)
"""Per request: seconds after the one before, prompt tokens, reply tokens."""


def step_s(rows: int, prompt_tokens: int) -> float:
    return OWN_S + ROW_S * rows + TOKEN_S * prompt_tokens


class Machine:
    """An instance that reads a whole prompt in one step, with the rule above it."""

    def __init__(self, work: list[tuple[float, int, int]], objectives: Objectives) -> None:
        self.now_s, self.admission = 0.0, Admission(objectives)
        self.arrivals: list[tuple[float, int, int]] = []
        at_s = 0.0
        for later_s, prompt, reply in work:
            at_s += later_s
            self.arrivals.append((at_s, prompt, reply))
        self.waiting: list[int] = []
        self.running: dict[int, int] = {}
        self.begun: list[int] = []
        self.overtaken_late = 0
        self.broken = 0

    def candidate(self, number: int) -> Candidate:
        at_s, prompt, _ = self.arrivals[number]
        step = step_s(len(self.running) + 1, prompt)
        return Candidate(self.now_s - at_s, step, step)

    def step(self) -> None:
        seen = [self.candidate(number) for number in self.waiting]
        place = self.admission.next(seen, len(self.running), lambda _: True)
        prompt = 0
        if place is not None:
            number = self.waiting.pop(place)
            limit_s = self.admission.objectives.overtaken_s
            self.overtaken_late += any(c.waited_s >= limit_s for c in seen[:place])
            prompt = self.arrivals[number][1]
            self.broken += bool(self.running) and not self.admission.keeps(seen[place].gap_s)
            self.running[number] = self.arrivals[number][2]
            self.begun.append(number)
        self.now_s += step_s(len(self.running), prompt)
        self.running = {n: left - 1 for n, left in self.running.items() if left > 1}

    def play(self) -> list[int]:
        """All of it; numbers in the order in which they began."""
        unseen = list(range(len(self.arrivals)))
        while unseen or self.waiting or self.running:
            while unseen and self.arrivals[unseen[0]][0] <= self.now_s:
                self.waiting.append(unseen.pop(0))
            if not self.waiting and not self.running:
                self.now_s = self.arrivals[unseen[0]][0]
                continue
            self.step()
        return self.begun


@settings(max_examples=60, deadline=None)
@given(work=WORK, first_s=st.none() | SECONDS, gap_s=st.none() | SECONDS)
def test_all_begin_once_and_nobody_overtakes_one_that_waited_too_long(
    work: list[tuple[float, int, int]], first_s: float | None, gap_s: float | None
) -> None:
    objectives = Objectives(first_token_s=first_s, between_tokens_s=gap_s)
    machine = Machine(work, objectives)
    begun = machine.play()
    assert sorted(begun) == list(range(len(work)))
    assert not machine.overtaken_late
    assert not machine.broken
    assert Machine(work, objectives).play() == begun
    if first_s is None:
        assert begun == sorted(begun)


def test_those_that_can_hold_their_time_come_before_the_lost_and_after_those_that_wait_too_long() -> (
    None
):
    admission = Admission(Objectives(first_token_s=1.0, longest_wait_s=4.0))
    waiting = [Candidate(2.0, 0.1, 0.0), Candidate(0.2, 0.9, 0.0), Candidate(0.2, 0.5, 0.0),
               Candidate(0.0, 0.1, 0.0), Candidate(5.0, 0.1, 0.0)]  # fmt: skip
    assert admission.order(waiting) == [4, 2, 3, 0, 1]
    assert admission.next(waiting, 3, lambda place: place != 4) is None
    assert admission.next(waiting[:4], 3, lambda place: place != 2) == 3


def test_one_waits_where_it_would_slow_the_others_and_begins_where_nothing_runs() -> None:
    admission = Admission(Objectives(between_tokens_s=0.1))
    slow = Candidate(0.0, 0.2, 0.2)
    assert admission.next([slow], 1, lambda _: True) is None
    assert admission.next([slow], 0, lambda _: True) == 0
    both = Admission(Objectives(first_token_s=1.0, between_tokens_s=0.1))
    assert both.next([slow, Candidate(0.0, 0.05, 0.05)], 1, lambda _: True) == 1


def test_step_times_are_learned_and_what_nothing_speaks_of_stays() -> None:
    chance, times = random.Random(0), StepTimes()
    for _ in range(300):
        rows, tokens = chance.randint(0, 16), chance.choice([0, 0, chance.randint(1, 500)])
        noise = 1 + chance.uniform(-0.02, 0.02)
        times.measured(step_s(rows, tokens) * noise, rows=rows, prompt_tokens=tokens)
    for rows, tokens in ((1, 0), (12, 0), (8, 300)):
        assert times.seconds(rows=rows, prompt_tokens=tokens) == pytest.approx(
            step_s(rows, tokens), rel=0.08
        )
    limit_s = step_s(4, 200)
    assert times.prompt_tokens(limit_s, 4) == pytest.approx(200, rel=0.15)
    for _ in range(2000):
        times.measured(step_s(4, 0), rows=4, prompt_tokens=0)
    assert times.seconds(rows=4, prompt_tokens=300) == pytest.approx(step_s(4, 300), rel=0.1)


@settings(max_examples=50, deadline=None)
@given(
    seen=st.lists(
        st.tuples(st.floats(0, 10), st.integers(0, 64), st.integers(0, 4096)), max_size=40
    )
)
def test_estimates_never_fall_with_more_to_do(seen: list[tuple[float, int, int]]) -> None:
    times = StepTimes()
    for seconds, rows, tokens in seen:
        times.measured(seconds, rows=rows, prompt_tokens=tokens)
    grown = [times.seconds(rows=n, prompt_tokens=64 * n) for n in range(8)]
    assert grown == sorted(grown)
    assert grown[0] >= 0


def test_several_steps_measured_together_teach_the_same() -> None:
    chance, times = random.Random(1), StepTimes()
    for _ in range(300):
        steps, rows, tokens = chance.randint(1, 30), chance.randint(1, 8), chance.randint(0, 300)
        seconds = steps * OWN_S + steps * rows * ROW_S + tokens * TOKEN_S
        times.measured(seconds, steps=steps, rows=steps * rows, prompt_tokens=tokens)
    assert times.seconds(rows=6, prompt_tokens=100) == pytest.approx(step_s(6, 100), rel=0.08)


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"first_token_s": 0}, "first_token_s"), ({"between_tokens_s": float("inf")}, "between_tokens_s"),
     ({"longest_wait_s": 3.0}, "longest_wait_s")],
)  # fmt: skip
def test_times_that_cannot_be_are_refused(fields: dict[str, float], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Objectives(**fields)
