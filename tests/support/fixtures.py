"""Stores to test against (a DuckDB file, a real PostgreSQL) and a worker host."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.store import Store
from compile_hud.runner.execution.local_executor import LocalExecutor
from tests.support.fakes import FakeClock
from tests.support.servers.postgres import PostgresServer, find_binaries, running_server
from tests.support.words import replacing

_NUMBERS = itertools.count()


@pytest.fixture
def words(snapshot: SnapshotAssertion, tmp_path: Path) -> SnapshotAssertion:
    """Return the snapshot of a surface's words; `make words` writes it."""
    return snapshot.with_defaults(matcher=replacing(tmp_path))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Yield a running server; without PostgreSQL skip, but fail where CI is set."""
    binaries = find_binaries()
    if binaries is None:
        reason = "PostgreSQL is not installed: apt-get install postgresql"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with running_server(binaries) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """Return the name of a database with its tables: copying it takes a tenth of making them."""
    Store(postgres_server.create_database("hud_template")).migrate()
    postgres_server.end_connections("hud_template")
    return "hud_template"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """Return the URL of an empty database for this test only."""
    return postgres_server.create_database(f"hud_{next(_NUMBERS)}")


@pytest.fixture
def duckdb_url(tmp_path: Path) -> str:
    """Return the URL of a DuckDB file that does not exist yet."""
    return f"duckdb:///{tmp_path}/folder/hud.duckdb"


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with its tables, to be copied: making them takes longer than a test."""
    path = tmp_path_factory.mktemp("empty") / "store.duckdb"
    Store(f"duckdb:///{path}").migrate()
    return path


@pytest.fixture(scope="session")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the state directory of the executor; headers are compiled into it once."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="session")
def executor(state_dir: Path) -> Iterator[LocalExecutor]:
    """Yield a worker host on the CPU that the tests of this process share."""
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    local.open()
    yield local
    local.close()


@pytest.fixture(scope="module")
def own_gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lock the GPU: other test processes' work on it would distort times and energy."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (folder / "gpu.lock").open("w", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@pytest.fixture(params=["file", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty store of each kind, with its tables if `store` is used."""
    if "store" in request.fixturenames:
        return str(request.getfixturevalue(f"{request.param}_url_with_tables"))
    name = "postgres_url" if request.param == "postgres" else "duckdb_url"
    return str(request.getfixturevalue(name))


@pytest.fixture
def file_url_with_tables(duckdb_url: str, empty: Path) -> str:
    """Return the URL of a DuckDB file with its tables."""
    path = Path(duckdb_url.removeprefix("duckdb:///"))
    path.parent.mkdir(parents=True)
    shutil.copy(empty, path)
    shutil.copy(f"{empty}.generation", f"{path}.generation")
    return duckdb_url


@pytest.fixture
def postgres_url_with_tables(postgres_server: PostgresServer, postgres_template: str) -> str:
    """Return the URL of a database for this test only, with its tables."""
    return postgres_server.create_database(f"hud_{next(_NUMBERS)}", template=postgres_template)


@pytest.fixture
def now() -> FakeClock:
    """Return the clock of the `store` fixture."""
    return FakeClock()


@pytest.fixture
def store(store_url: str, now: FakeClock) -> Store:
    """Return an empty store of each kind."""
    return Store(store_url, now=now)
