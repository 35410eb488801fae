import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.core import Streams
from srl_envs.draws import Draws, seed_words

LARGE = st.sampled_from([1, 2, 3, 2**31, 2**31 + 5, 3 * 2**30 + 1, 2**32 - 7, 2**32 - 1, 2**32])
COUNTS = st.integers(1, 1000) | LARGE
ORDERS = st.lists(
    st.tuples(st.sampled_from(["integers", "between", "several", "random"]), COUNTS)
    | st.tuples(st.just("permutation"), st.integers(1, 70))
    | st.tuples(st.just("sample"), st.integers(1, 200)),
    max_size=40,
)


def both(order: str, count: int, draws: Draws, rng: np.random.Generator) -> tuple[object, object]:
    """The same order to `Draws` and to numpy."""
    size = count % 7 + 1
    match order:
        case "integers":
            return draws.integers(count), rng.integers(count)
        case "between":
            return draws.integers(5, 5 + count), rng.integers(5, 5 + count, size=1)[0]
        case "several":
            return draws.several(size, 3, 3 + count), rng.integers(3, 3 + count, size=size).tolist()
        case "permutation":
            return draws.permutation(count), rng.permutation(count).tolist()
        case "sample":
            size = count // 2 + 1
            return draws.sample(count, size), rng.choice(count, size, replace=False).tolist()
    return draws.random(), rng.random()


@given(st.integers(0, 2**64), ORDERS)
def test_draws_are_those_of_numpy_and_a_generator_goes_on_after_them(
    seed: int, orders: list[tuple[str, int]]
) -> None:
    draws, rng = Draws(np.random.PCG64(seed)), np.random.default_rng(seed)
    for order, count in orders:
        ours, theirs = both(order, count, draws, rng)
        assert ours == theirs
    after = draws.generator()
    for _ in range(2):
        assert after.integers(1000) == rng.integers(1000)
        assert after.geometric(0.1) == rng.geometric(0.1)


NUMBERS = st.integers(0, 2**100) | st.sampled_from([0, 2**32 - 1, 2**32, 2**64])


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.integers(0, 3))
def test_seed_words_are_those_of_a_spawned_sequence(entropy: list[int], stream: int) -> None:
    theirs = np.random.SeedSequence(entropy, spawn_key=(stream,))
    ours = np.random.SeedSequence(seed_words(entropy, stream))
    assert ours.generate_state(8).tolist() == theirs.generate_state(8).tolist()


def test_a_stream_gives_the_same_as_draws_and_as_a_generator() -> None:
    streams = Streams(7, 0, 1, 2**40)
    for name in ("instance", "seats"):
        draws, rng = streams.draws(name), getattr(Streams(7, 0, 1, 2**40), name)
        assert draws.permutation(50) == rng.permutation(50).tolist()
