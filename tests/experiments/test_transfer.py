"""How right answers are compared with wrong ones."""

import numpy as np
import pytest

from benchmarks.experiments import transfer
from srl_agents.models.base_model import BaseModel
from srl_agents.models.probe import logprobs_under
from srl_agents.models.sources import catalog


def test_replies_to_a_prompt_that_is_read_once_are_as_likely_as_each_by_itself() -> None:
    base = BaseModel.load(catalog.resolve("tiny"), lora_rank=2, lora_alpha=4)
    opening = base.chat.encode_prompt("Problem: 2 + 3 = ?")
    replies = [base.chat.encode_reply(text) for text in ("5", "-17", "1234", "8")]
    found = transfer.reply_logprobs(base, None, opening, replies)
    alone = [
        sum(logprobs_under(base, None, (*opening, *reply))[len(opening) - 1 :]) for reply in replies
    ]
    assert len({len(reply) for reply in replies}) > 1
    np.testing.assert_allclose(found, alone, atol=1e-4)


def test_the_margin_is_that_of_the_mean_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """log .5 minus log of (.1 + .2 + .3) / 3 = log 2.5 = .9163."""
    chances = np.log([0.5, 0.1, 0.2, 0.3])
    monkeypatch.setattr(transfer, "reply_logprobs", lambda *_: chances)
    base = BaseModel.load(catalog.resolve("tiny"), lora_rank=2, lora_alpha=4)
    problem = transfer.Problem("1 + 1 = ?", "2", ("3", "4", "5"))
    found, _ = transfer.preference(base, None, [problem] * (transfer.CHOSEN_ON + 1))
    assert found.margin == pytest.approx(0.91629, abs=1e-5)
    assert found.accuracy == 1


def test_wrong_answers_are_of_others_as_long_and_never_right() -> None:
    asked = [(f"{n} + 1 = ?", str(n + 1)) for n in range(100, 160)]
    asked += [("9 + 0 = ?", "9")]
    found = transfer._with_wrong_answers(asked)
    assert len(found) == transfer.ASKED + transfer.CHOSEN_ON
    for one in found:
        assert one.right not in one.wrong
        assert len(set(one.wrong)) == transfer.WRONG
        assert {len(wrong) for wrong in one.wrong} == {len(one.right)}
