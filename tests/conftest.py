"""Fixtures and hooks of all tests."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.examples import PROFILE
from tests.support.stores.open_instances import OpenInstances, open_instances

pytest_plugins = ["tests.support.fixtures"]

# As in a worker, and read when torch is imported: on a busy machine threads wait for one another.
os.environ["OMP_NUM_THREADS"] = "1"

# A busy machine makes no test fail: what takes long is shown by benchmarks.
settings.register_profile("hud", deadline=None, max_examples=50)
settings.register_profile("nightly", deadline=None, max_examples=300)
settings.load_profile(PROFILE)


# These tests show how the product opens, copies and closes its files, or share them with a server.
_TESTS = Path(__file__).parent
_OPENING = {
    *(_TESTS / "store" / name for name in ("engine", "maintenance", "schema")),
    _TESTS / "cli" / "test_secrets.py",
    _TESTS / "e2e",
}
_INSTANCES = pytest.StashKey[OpenInstances]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the tests marked nightly as well")


def pytest_configure(config: pytest.Config) -> None:
    """Let only the night fail on a snapshot that no test has; the day leaves some of them out."""
    if not config.getoption("--nightly"):
        config.option.warn_unused_snapshots = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the night to `make test-nightly`, unless they alone are chosen."""
    nightly = {item for item in items if item.get_closest_marker("nightly")}
    if nightly and len(nightly) < len(items) and not config.getoption("--nightly"):
        config.hook.pytest_deselected(items=list(nightly))
        items[:] = [item for item in items if item not in nightly]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Keep the DuckDB files of a test open between its transactions."""
    if _OPENING & {item.path, *item.path.parents}:
        return (yield)
    with open_instances() as instances:
        item.stash[_INSTANCES] = instances
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Do so again in a test for which a fixture started a process."""
    if instances := item.stash.get(_INSTANCES, None):
        instances.is_active = True
        instances.folder = str(getattr(item, "funcargs", {}).get("tmp_path", ""))
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
    """Hear Ctrl-C and a hangup also where they are ignored, as under a script's `&` and `nohup`.

    What a test starts would ignore them as well.
    """
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    ignored = [number for number in defaults if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, defaults[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
