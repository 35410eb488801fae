"""A trainer in a process that another one follows: no call of its console is lost on the way."""

from __future__ import annotations

import fcntl
import pickle
import threading
from pathlib import Path

from srl_agents.training.cluster.far_trainer import FarView, wait_for_writer
from srl_agents.training.folder.layout import STORE
from srl_envs.errors import FaultError

AT_ONCE, LONG_S = 0.0, 60.0


def test_calls_are_returned_again_until_they_were_received() -> None:
    view = FarView()
    view.say("one")
    view.advance(3)
    first = [("say", ("one",)), ("advance", (3,))]
    assert view.calls_after(0, AT_ONCE) == first
    assert view.calls_after(0, AT_ONCE) == first
    view.say("two")
    assert view.calls_after(2, AT_ONCE) == [("say", ("two",))]
    assert view.calls_after(3, AT_ONCE) == []


def test_last_words_come_back_when_they_were_heard_and_not_before() -> None:
    view = FarView()
    speaking = threading.Thread(target=view.say_last, args=("it hangs",), daemon=True)
    speaking.start()
    assert view.calls_after(0, LONG_S) == [("say_last", ("it hangs",))]
    speaking.join(0.1)
    assert speaking.is_alive()
    view.calls_after(1, AT_ONCE)
    speaking.join(LONG_S)
    assert not speaking.is_alive()


def test_a_new_trainer_waits_while_another_one_holds_the_run(tmp_path: Path) -> None:
    assert wait_for_writer(tmp_path, AT_ONCE)
    with (tmp_path / f"{STORE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not wait_for_writer(tmp_path, AT_ONCE)
    assert wait_for_writer(tmp_path, AT_ONCE)


def test_a_fault_arrives_from_another_process_as_it_was() -> None:
    fault = FaultError("weights are broken", fault="weights_broken", learner="bob", since=3)
    arrived = pickle.loads(pickle.dumps(fault))
    assert (str(arrived), vars(arrived)) == (str(fault), vars(fault))
