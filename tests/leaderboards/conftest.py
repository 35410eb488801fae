"""Keys for each module of tests, none in the account that runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.leaderboards.shown_site import browser, page, site  # noqa: F401  (fixtures)


@pytest.fixture(scope="module", autouse=True)
def _own_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SRL_KEYS", str(tmp_path_factory.mktemp("keys")))
        yield
