"""Fixtures and hooks of all tests."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.examples import PROFILE
from tests.support.stores.open_instances import open_instances

pytest_plugins = ["tests.support.fixtures"]

# As in a worker, and read when torch is imported: on a busy machine threads wait for one another.
os.environ["OMP_NUM_THREADS"] = "1"

# A busy machine makes no test fail: what takes long is shown by benchmarks.
settings.register_profile("hud", deadline=None, max_examples=50)
settings.register_profile("nightly", deadline=None, max_examples=300)
settings.load_profile(PROFILE)


# These tests show how the product opens and closes its files.
_OPENING = {Path(__file__).parent / "store" / name for name in ("engine", "maintenance")}


@contextmanager
def _open_instances(item: pytest.Item) -> Iterator[None]:
    """Keep the DuckDB files of `item` open between its transactions."""
    with nullcontext() if _OPENING & set(item.path.parents) else open_instances():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with _open_instances(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with _open_instances(item):
        return (yield)


@pytest.fixture(autouse=True)
def own_main_module() -> Iterator[None]:
    """Put `__main__` back: AppTest replaces it, and a spawned process would run a page."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture(scope="session", autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the locks of tests apart from those of real runs, which may last for hours."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HUD_LOCK_DIR", str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(scope="session", autouse=True)
def catch_interrupts() -> Iterator[None]:
    """Hear Ctrl-C also where it is ignored, as in whatever a script's `&` starts.

    What a test starts would ignore it as well.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)
