"""The journal of paid replies keeps every reply, and does not take a torn line for one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.engines.endpoint.reply_journal import JournaledReply, ReplyJournal
from srl_agents.records import Served
from srl_envs.errors import StoreError

TEXTS = st.text(max_size=30)
WRITER = """
import sys
from pathlib import Path
from srl_agents.engines.endpoint.reply_journal import JournaledReply, ReplyJournal
from srl_agents.records import Served
journal = ReplyJournal(Path(sys.argv[1]))
number = len(journal)
while True:
    journal.add(str(number), JournaledReply(text="x" * 300, thoughts="", served=Served(finish="stop")))
    print(number, flush=True)
    number += 1
"""


def a_reply(text: str = "bet", thoughts: str = "") -> JournaledReply:
    served = Served(finish="stop", cost=0.25, failed_tries=("slow", "cut"))
    return JournaledReply(text=text, thoughts=thoughts, served=served)


@settings(max_examples=20, deadline=None)
@given(
    replies=st.lists(st.tuples(st.sampled_from("abcd"), TEXTS, TEXTS), max_size=8),
    torn=st.integers(0, 40),
)
def test_the_first_reply_to_each_request_is_found_again_after_a_torn_line(
    replies: list[tuple[str, str, str]], torn: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replies.jsonl"
        journal, first = ReplyJournal(path), dict[str, JournaledReply]()
        for request, text, thoughts in replies:
            reply = a_reply(text, thoughts)
            journal.add(request, reply)
            first.setdefault(request, reply)
        journal.close()
        whole = path.read_bytes()
        path.write_bytes(
            whole
            + (whole or b'{"request": "abcdefghijklmnopqrstuvwxyz01234567"')[:torn].rstrip(b"\n")
        )
        again = ReplyJournal(path)
        assert {request: again.find(request) for request in "abcd"} == {
            request: first.get(request) for request in "abcd"
        }
        again.add("new", a_reply())
        again.close()
        assert path.read_bytes().startswith(whole)
        last = ReplyJournal(path)
        assert (len(last), last.find("new")) == (len(first) + 1, a_reply())
        last.close()


def test_two_writers_of_one_journal_find_their_own_replies(tmp_path: Path) -> None:
    """Processes that torchrun starts share the folder of a run."""
    path = tmp_path / "replies.jsonl"
    one, other = ReplyJournal(path), ReplyJournal(path)
    for number in range(4):
        (one, other)[number % 2].add(str(number), a_reply(f"text {number}" * (number + 1)))
    for number in range(4):
        found = (one, other)[number % 2].find(str(number))
        assert found == a_reply(f"text {number}" * (number + 1))
    one.close()
    other.close()
    again = ReplyJournal(path)
    assert len(again) == 4
    again.close()


def test_a_journal_that_was_edited_is_refused(tmp_path: Path) -> None:
    (tmp_path / "replies.jsonl").write_text('{"request": "a"}\n')
    with pytest.raises(StoreError, match="byte 0: no reply"):
        ReplyJournal(tmp_path / "replies.jsonl")


@pytest.mark.slow
def test_what_was_written_before_kill_9_is_there_after_it(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            written = [int(writer.stdout.readline()) for _ in range(200)]
            os.kill(writer.pid, signal.SIGKILL)
        journal = ReplyJournal(path)
        assert all(journal.find(str(number)) is not None for number in range(written[-1] + 1))
        journal.close()
