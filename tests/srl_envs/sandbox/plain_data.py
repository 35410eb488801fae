"""Random plain data, as programs may take and return it."""

from __future__ import annotations

from hypothesis import strategies as st

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=8)
)
KEYS = st.booleans() | st.integers() | st.text(max_size=4) | st.tuples(st.integers(), st.text())
PLAIN = st.recursive(
    SCALARS | st.frozensets(st.integers() | st.text(max_size=3), max_size=4).map(set),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=20,
)
