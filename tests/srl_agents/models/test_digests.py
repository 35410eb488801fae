"""Which models have different digests, and which have the same."""

from collections.abc import Callable, Sequence

import pytest
import torch

from srl_agents.models import digests
from srl_agents.models.digests import tensors_sha256, version_of

TENSORS = {"a": torch.tensor([[1.0, 2.0]]), "b": torch.tensor([3, 4])}


def test_order_place_and_strides_do_not_matter() -> None:
    strided = torch.tensor([[1.0], [2.0]]).T
    assert not strided.T.is_set_to(TENSORS["a"])
    again = {"b": TENSORS["b"].clone(), "a": strided}
    assert tensors_sha256(again) == tensors_sha256(TENSORS)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: {**t, "b": t["b"] + 1},
        lambda t: {**t, "b": t["b"].reshape(2, 1)},
        lambda t: {**t, "b": t["b"].view(torch.float64)},
        lambda t: {"a": t["a"], "c": t["b"]},
        lambda t: {"a": t["a"]},
    ],
    ids=["bytes", "shape", "type", "name", "one less"],
)
def test_whatever_else_changes_has_another_digest(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]],
) -> None:
    assert tensors_sha256(change(TENSORS)) != tensors_sha256(TENSORS)


def test_bfloat16_and_scalars_have_digests() -> None:
    halves = {"a": torch.ones(3, dtype=torch.bfloat16), "s": torch.tensor(1.0)}
    assert tensors_sha256(halves) != tensors_sha256({k: v.float() for k, v in halves.items()})


def test_a_version_is_named_by_its_weights_and_by_what_is_shown() -> None:
    plain = version_of("alice", 3, TENSORS)
    assert str(plain) == f"alice@3-{tensors_sha256(TENSORS)[:16]}"
    shown = version_of("alice", 3, TENSORS, [("board", "move")])
    assert shown.label == plain.label
    assert shown != plain
    assert shown == version_of("alice", 3, TENSORS, (("board", "move"),))


def test_large_weights_are_hashed_once_until_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    whole = digests._computed

    def counting(named: Sequence[tuple[str, torch.Tensor]]) -> object:
        counted.append(len(named))
        return whole(named)

    monkeypatch.setattr(digests, "_computed", counting)
    large = {"a": torch.zeros(2**21), "b": torch.ones(2**21)}
    first = tensors_sha256(large)
    assert tensors_sha256(large) == first
    assert version_of("alice", 3, large).digest == first[:16]
    assert len(counted) == 1
    assert tensors_sha256({k: v.clone() for k, v in large.items()}) == first  # other tensors: anew
    assert len(counted) == 2

    large["a"][5] = 1.0  # torch counts this
    second = tensors_sha256(large)
    large["b"].data.zero_()  # and not this
    third = tensors_sha256(large)
    assert len({first, second, third}) == 3
    assert third == tensors_sha256({k: v.clone() for k, v in large.items()})
