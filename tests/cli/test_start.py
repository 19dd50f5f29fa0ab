"""The packages that `hud` imports before it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compile_hud.db.store import Store
from tests.support.builders import make_run
from tests.support.sources import ROOT

PACKAGES = (
    "alembic", "duckdb", "numpy", "pandas", "pyarrow", "pydantic", "rich", "scipy", "sqlalchemy",
    "streamlit", "torch",
)  # fmt: skip
CODE = f"""
import atexit, json, os, sys
names = {PACKAGES!r}
report = os.fdopen(int(sys.argv.pop(1)), "w")
atexit.register(lambda: json.dump([name for name in names if name in sys.modules], report))
from compile_hud.runner.cli.entry import main
main()
"""


def imported(*arguments: str, folder: Path) -> set[str]:
    """Return which of PACKAGES a new `hud` has imported when it ends."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as report:
        done = subprocess.run(
            [sys.executable, "-c", CODE, str(writer), *arguments],
            cwd=folder,
            pass_fds=[writer],
            capture_output=True,
            text=True,
            check=False,
        )
        os.close(writer)
        assert done.returncode == 0, done.stderr
        return set(json.load(report))


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("completion", "zsh")])
def test_help_version_and_completion_import_click_alone(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    assert imported(*arguments, folder=tmp_path) == set()


def test_a_list_of_runs_imports_what_reads_the_store(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'store.duckdb'}"
    Store(url).save_run(make_run())
    packages = imported("runs", "--json", "--store", url, folder=tmp_path)
    assert packages == {"duckdb", "pydantic", "sqlalchemy"}
    assert imported("runs", "--store", url, folder=tmp_path) == packages | {"rich"}


def test_a_write_imports_no_pandas(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from compile_hud.db.store import Store\n"
        "from tests.support.builders import make_result, make_run\n"
        "store = Store('duckdb:///written.duckdb')\n"
        "store.ingest(make_run(), make_result('written'), spool_id='written')\n"
        "assert 'pyarrow.dataset' in sys.modules\n"
        "assert 'pandas' not in sys.modules\n"
        "import pyarrow\n"
        "assert list(pyarrow.table({'a': [1]}).to_pandas()['a']) == [1]\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        check=True,
    )


def test_code_that_uses_duckdb_gets_pandas(tmp_path: Path) -> None:
    code = (
        "from compile_hud.db.store import Store\n"
        "from sqlalchemy import text\n"
        "with Store('duckdb:///:memory:').read() as connection:\n"
        "    connection.execute(text('SELECT :number'), {'number': 1})\n"
        "import sys\n"
        "assert 'pandas' not in sys.modules\n"
        "import pandas\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
