"""What every test shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the locks of tests apart from those of real runs, which may last for hours."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HUD_LOCK_DIR", str(tmp_path_factory.mktemp("locks")))
        yield
