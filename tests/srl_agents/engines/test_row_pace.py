"""The loop's pace: how much a step reads, who begins, and in which order, by a clock of our own."""

from __future__ import annotations

import numpy as np
import pytest

from srl_agents.caching.objectives import Objectives
from srl_agents.engines.embedded.row import Row
from srl_agents.engines.embedded.row_pace import Pace
from srl_agents.engines.protocol import SamplingSettings


def paced(objectives: Objectives) -> Pace:
    """One that has seen steps of 20 ms, 10 ms per reply and 1 ms per prompt token."""
    pace = Pace(objectives, clock=lambda: 100.0)
    for n in range(200):
        rows, tokens = n % 5, n * 7 % 90
        pace.stepped(0.02 + 0.01 * rows + 0.001 * tokens, rows=rows, prompt_tokens=tokens)
    return pace


def row(prompt: int, waited_s: float) -> Row:
    return Row(
        prompt=(1,) * prompt,
        version=None,
        sampling=SamplingSettings(),
        uniforms=np.zeros(4, dtype=np.float32),
        ended=lambda reply: False,
        asked_s=100.0 - waited_s,
    )


def test_a_step_reads_what_the_replies_can_wait_for_and_all_where_there_are_none() -> None:
    pace = paced(Objectives(between_tokens_s=0.25))
    assert pace.prompt_tokens(4096, 0) == 4096
    assert pace.prompt_tokens(4096, 4) == pytest.approx(190, rel=0.1)
    assert pace.prompt_tokens(64, 4) == 64
    assert pace.prompt_tokens(4096, 40) == 32  # a prompt goes on, however little


def test_no_more_begin_than_keep_their_time() -> None:
    pace = paced(Objectives(between_tokens_s=0.25))
    taken = next(live for live in range(64) if not pace.takes_one_more(live))
    assert 0.02 + 0.01 * taken + 0.032 == pytest.approx(0.25, abs=0.03)
    assert paced(Objectives(first_token_s=1.0)).takes_one_more(10**6)
    assert pace.takes_one_more(0)


def test_rows_that_can_hold_their_time_go_first_whatever_order_they_lie_in() -> None:
    pace = paced(Objectives(first_token_s=1.0))
    lost, long, short, late = row(10, 3.0), row(2000, 0.4), row(10, 0.2), row(10, 9.0)
    line = pace.line_up(
        [short, long, lost, late], rows=2, left=0, most=64, unread=lambda r: len(r.prompt)
    )
    assert list(line) == [late, short, lost, long]


def test_without_objectives_nothing_is_decided() -> None:
    pace = paced(Objectives())
    assert not pace.decides
    assert pace.prompt_tokens(4096, 9) == 4096
    assert pace.takes_one_more(10**6)
