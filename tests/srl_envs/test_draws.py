from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.core import Streams
from srl_envs.draws import Draws, seed_words

LARGE = st.sampled_from([1, 2, 3, 2**31, 2**31 + 5, 3 * 2**30 + 1, 2**32 - 7, 2**32 - 1, 2**32])
ORDERS = st.lists(
    st.tuples(st.just("integers"), st.integers(1, 1000) | LARGE)
    | st.tuples(
        st.sampled_from(["permutation", "sample", "several", "random"]), st.integers(1, 70)
    ),
    max_size=40,
)


def carried_out(draws: Draws, order: str, count: int) -> object:
    """What was drawn, after its range was checked."""
    match order:
        case "integers":
            number = draws.integers(5, 5 + count)
            assert 5 <= number < 5 + count
            return number
        case "permutation":
            numbers = draws.permutation(count)
            assert sorted(numbers) == list(range(count))
            return numbers
        case "sample":
            numbers = draws.sample(count, count // 2 + 1)
            assert len(set(numbers)) == count // 2 + 1
            assert set(numbers) <= set(range(count))
            return numbers
        case "several":
            numbers = draws.several(count, 3, 9)
            assert len(numbers) == count
            assert set(numbers) <= set(range(3, 9))
            return numbers
    share = draws.random()
    assert 0 <= share < 1
    return share


@given(st.integers(0, 2**64), ORDERS)
def test_draws_keep_to_their_range_and_follow_from_the_key(
    seed: int, orders: list[tuple[str, int]]
) -> None:
    draws, again = Draws(7, seed), Draws(np.int64(7), seed)  # type: ignore[arg-type] # from numpy, too
    for order, count in orders:
        assert carried_out(draws, order, count) == carried_out(again, order, count)
    assert draws.generator().random() == again.generator().random()


@pytest.mark.parametrize(
    ("draw", "values"),
    [
        (lambda draws: draws.integers(7), 7),
        (lambda draws: tuple(draws.permutation(3)), 6),
        (lambda draws: tuple(draws.sample(4, 2)), 12),
        (lambda draws: int(draws.random() * 8), 8),
        (lambda draws: draws.integers(3 * 2**30) % 3, 3),
        (lambda draws: draws.several(1, 0, 3 * 2**30)[0] % 3, 3),
    ],
)
def test_every_value_is_as_likely_as_any_other(
    draw: Callable[[Draws], object], values: int
) -> None:
    """Within one stream, and over the beginnings of streams with neighbouring keys."""
    count = 400 * values
    stream = Draws(1)
    within = Counter(draw(stream) for _ in range(count))
    over = Counter(draw(Draws(5, seed)) for seed in range(count))
    for seen in (within, over):
        assert len(seen) == values
        assert sum((n - 400) ** 2 / 400 for n in seen.values()) < values + 5 * (2 * values) ** 0.5


def test_streams_of_different_keys_share_no_number() -> None:
    keys = [(seed, stream) for seed in range(30) for stream in range(4)] + [(1,), (1, 0, 0), (10,)]
    drawn = [n for key in keys for n in Draws(*key).several(20, 0, 2**32)]
    assert len(set(drawn)) == len(drawn)


def test_the_numbers_never_change() -> None:
    """Recorded episodes replay only as long as these stay."""
    draws = Streams(7, 0, 1, 2**40).draws("seats")
    assert draws.several(3, 0, 2**32) == [3866586800, 2647715849, 2057437301]
    assert draws.permutation(6) == [5, 1, 0, 2, 4, 3]
    assert draws.random() == 0.9631876458003024
    assert draws.generator().integers(2**32) == 2609371010


NUMBERS = st.integers(0, 2**100) | st.sampled_from([0, 2**32 - 1, 2**32, 2**64])


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.integers(0, 3))
def test_seed_words_are_those_of_a_spawned_sequence(entropy: list[int], stream: int) -> None:
    theirs = np.random.SeedSequence(entropy, spawn_key=(stream,))
    ours = np.random.SeedSequence(seed_words(entropy, stream))
    assert ours.generate_state(8).tolist() == theirs.generate_state(8).tolist()
