"""Tests of the judge over a store: what it does does not depend on the kind of store."""

from __future__ import annotations

import pytest

from tests.support.nightly import daily_first


@pytest.fixture(params=daily_first(["file", "postgres"], num_daily=1))
def store_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty store; the night takes each kind, as other tests of stores do."""
    return str(request.getfixturevalue(f"{request.param}_url_with_tables"))
