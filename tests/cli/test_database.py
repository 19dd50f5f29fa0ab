"""hud db prune and hud db check, on a store with traces next to it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries import results as queries
from compile_hud.db.records.notifications import NotificationState
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.store import Store
from tests.store.maintenance.test_consistency import lose
from tests.support.builders import START, make_notification, make_result, make_run
from tests.support.fakes import FakeClock
from tests.support.terminal import Terminal

URL = "duckdb:///.hud/store.duckdb"
TRACES = Path(".hud/store.duckdb.traces")


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in a folder with a store of three nights, each with a trace."""
    monkeypatch.chdir(tmp_path)
    TRACES.mkdir(parents=True)
    store = Store(URL, now=FakeClock())
    for night in range(3):
        run = make_run(f"run-{night}", started_at=START + timedelta(days=night))
        name = f"result-{night}.json.gz"
        details = {"profile": {"trace": name}}
        store.ingest(run, make_result(f"result-{night}", run=run, details=details), spool_id=name)
        write_trace(name)
    return Terminal(tmp_path)


def write_trace(name: str) -> None:
    """Leave a trace that is old enough to belong to a stored result."""
    (TRACES / name).write_bytes(b"trace")
    os.utime(TRACES / name, (1e9, 1e9))


def configure(*lines: str) -> None:
    """Add to hud.toml."""
    path = Path("hud.toml")
    path.write_text("\n".join((path.read_text(encoding="ascii"), *lines)), encoding="ascii")


def num_samples() -> list[int]:
    """Return how many samples each result has, oldest first."""
    return [
        len(queries.load_samples(Store(URL), f"result-{night}", "latency_s")) for night in range(3)
    ]


def test_nothing_is_pruned_that_the_settings_keep(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    before = num_samples()
    assert terminal.hud("db", "prune").stdout == words
    assert num_samples() == before
    assert len(list(TRACES.iterdir())) == 3


def test_a_backup_that_cannot_be_written_reports_where_not_and_leaves_nothing(
    terminal: Terminal,
    words: SnapshotAssertion,
) -> None:
    result = terminal.hud("db", "backup", "hud.toml/copy.zip")
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_dry_run_reports_what_prune_then_does(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    configure("[samples]", "nights = 1", "[traces]", "nights = 2")
    before = num_samples()
    dry = terminal.hud("db", "prune", "--dry-run").stdout
    assert dry.splitlines() == words
    assert num_samples() == before
    assert terminal.hud("db", "prune").stdout == dry.replace("would remove", "removed")
    assert num_samples() == [0, 0, before[2]]
    assert sorted(path.name for path in TRACES.iterdir()) == [
        "result-1.json.gz",
        "result-2.json.gz",
    ]


def test_a_run_prunes_by_itself(terminal: Terminal, words: SnapshotAssertion) -> None:
    configure("[samples]", "nights = 1")
    result = terminal.hud("run", "--suite", "mine", "--store", URL)
    assert result.stderr == words
    # The third is of the run that measured its series last.
    assert num_samples()[:2] == [0, 0]
    assert num_samples()[2] > 0


@pytest.mark.parametrize("command", [["runs"], ["regressions"], ["detect"], ["db", "check"]])
def test_a_store_without_a_run_may_be_another_than_was_meant(
    terminal: Terminal, command: list[str]
) -> None:
    Store("duckdb:///mistyped.duckdb").migrate()
    text = "no run in the store mistyped.duckdb yet; `hud run` makes one\n"
    result = terminal.hud(*command, "--store", "duckdb:///mistyped.duckdb")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", text)
    result = terminal.hud(*command, "--store", "duckdb:///mistyped.duckdb", "--json")
    assert (result.exit_code, result.stderr) == (0, text)


@pytest.mark.parametrize(
    "command",
    [
        "show latest",
        "show run-0",
        "kernels latest net",
        "kernels run-0 net",
        "export latest --format csv",
        "export all --format csv",
    ],
)
def test_a_missing_store_is_reported_where_no_run_matches(
    terminal: Terminal, command: str, words: SnapshotAssertion
) -> None:
    result = terminal.hud(*command.split(), "--store", "mistyped.duckdb")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr == words
    assert not Path("mistyped.duckdb").exists()


@pytest.mark.parametrize(
    "command",
    [
        "runs",
        "regressions",
        "detect",
        "modes",
        "trends",
        "report",
        "show latest",
        "kernels latest net",
        "compare latest previous",
        "export latest --format csv",
        "db check",
        "db prune",
        "db prune --dry-run",
        "alerts list",
        "alerts series",
        "alerts log",
        "alerts outbox",
        "alerts show a",
        "alerts ack a",
        "annotate list",
    ],
)
def test_a_store_that_is_not_there_is_an_error_with_its_name(
    terminal: Terminal, command: str
) -> None:
    text = (
        "hud: there is no store mistyped.duckdb yet; `hud run` makes it, or name another with"
        " --store\n"
    )
    has_json = command.split()[-1] not in ("report", "csv", "prune", "--dry-run")
    for options in ((), ("--json",)) if has_json else ((),):
        result = terminal.hud(*command.split(), "--store", "mistyped.duckdb", *options)
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", text)
    assert not list(Path().glob("mistyped*"))


def test_a_sound_store_has_nothing_that_leads_nowhere(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud("run", "--suite", "mine", "--store", URL)
    result = terminal.hud("db", "check")
    assert result.exit_code == 0
    assert result.stdout == words


def test_rows_and_traces_that_lead_nowhere_are_found_and_removed(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    lose(Store(URL), "runs", "id = 'run-0'")
    write_trace("of-nobody.json.gz")
    result = terminal.hud("db", "check")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == words
    repaired = terminal.hud("db", "check", "--repair", "--json")
    assert repaired.exit_code == 0
    assert json.loads(repaired.stdout)["removed"] > 3
    assert not (TRACES / "of-nobody.json.gz").exists()
    assert terminal.hud("db", "check").exit_code == 0


def test_a_trace_that_is_gone_is_reported_and_is_no_trouble(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    (TRACES / "result-1.json.gz").unlink()
    result = terminal.hud("db", "check")
    assert result.exit_code == 0
    assert result.stdout == words


def test_a_young_trace_may_be_of_a_result_on_its_way(terminal: Terminal) -> None:
    (TRACES / "of-tonight.json.gz").write_bytes(b"trace")
    assert terminal.hud("db", "check").exit_code == 0


def test_files_set_aside_are_reported_until_removed(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    broken = Path(".hud/spool/broken")
    broken.mkdir(parents=True)
    (broken / "a.json").write_text("{", encoding="ascii")
    result = terminal.hud("db", "check", "--repair")
    assert result.exit_code == 1
    assert result.stdout == words
    assert (broken / "a.json").exists()


def test_prune_removes_old_notifications(terminal: Terminal, words: SnapshotAssertion) -> None:
    old = replace(make_notification(), state=NotificationState.SENT)
    with Store(URL).write() as connection:
        put_notifications(connection, [old])
    terminal.clock.advance(40 * 24 * 3600)
    assert "forget" not in terminal.hud("db", "prune", "--dry-run").stdout
    configure("[outbox]", "days = 30")
    dry = terminal.hud("db", "prune", "--dry-run").stdout
    assert dry == (words)
    assert terminal.hud("db", "prune").stdout == dry.replace("would forget", "forgot")
    assert "nothing to prune" in terminal.hud("db", "prune").stdout
