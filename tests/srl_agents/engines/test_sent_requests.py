"""What was sent stands on the disk before; what is lost is what was sent beyond one answered time."""

from __future__ import annotations

from pathlib import Path

import pytest

from srl_agents.engines.endpoint.sent_requests import SentRequests
from srl_envs.errors import StoreError


def test_what_was_sent_in_vain_is_counted_over_all_lives_of_a_run(tmp_path: Path) -> None:
    path, answered = tmp_path / "sent.jsonl", {"a", "b"}
    first = SentRequests(path)
    for request in ("a", "b", "c"):
        first.add("one", request)
    first.add("other", "d")
    assert (first.lost("one", answered.__contains__), first.lost("absent", bool)) == (1, 0)

    second = SentRequests(path)  # the first was killed: c is sent again, and answered
    second.add("one", "c")
    answered.add("c")
    assert second.lost("one", answered.__contains__) == 1
    assert second.lost("other", answered.__contains__) == 1
    second.close()
    second.close()

    with path.open("ab") as file:
        file.write(b'["one", "e')  # no whole line: it was not sent
    third = SentRequests(path)
    third.add("one", "f")
    assert SentRequests(path).lost("one", answered.__contains__) == 2


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sent.jsonl").write_text("{}\n")
    with pytest.raises(StoreError, match="no request"):
        SentRequests(tmp_path / "sent.jsonl")
