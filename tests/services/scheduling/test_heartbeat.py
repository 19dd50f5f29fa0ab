"""The report of a scheduler in the store."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from compile_hud.db.errors import StoreLocked
from compile_hud.db.jobs.health import DeviceState, load_health
from compile_hud.db.shared.processes import this_process
from compile_hud.db.store import Store
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.config.schedules import Schedule
from compile_hud.runner.scheduling.heartbeat import HealthReporter, store_folder
from compile_hud.runner.scheduling.scheduler import scheduling
from compile_hud.runner.system.machine import ProgramOutput
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.support.builders import make_run
from tests.support.fakes import FakeClock, FakeMachine

MACHINE = FakeMachine(
    replies={
        "--query-gpu": ProgramOutput(
            text="0, GPU-a, Fake GPU, 570, Enabled, Disabled, 700, 700, 1980"
        ),
        "--query-compute-apps": ProgramOutput(text="GPU-a, 7, python3"),
    }
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    config = parse_config(
        '[machine]\nname = "box"', path=None, env={"HUD_STATE_DIR": str(tmp_path)}
    )
    dependencies = Dependencies(now=FakeClock(), env={}, has_gpu=lambda: True, machine=MACHINE)
    return Workspace(config=config, dependencies=dependencies)


def make_reporter(workspace: Workspace, *, jobs: list[str]) -> HealthReporter:
    return HealthReporter(
        workspace=workspace,
        schedules=lambda: (),
        current_job=lambda: jobs[-1] if jobs else "",
        started_at=workspace.dependencies.now(),
    )


def test_a_heartbeat_reports_process_devices_disks_and_spool(workspace: Workspace) -> None:
    workspace.spool().write(make_run())
    make_reporter(workspace, jobs=[]).report()
    (state,) = load_health(workspace.store()).schedulers
    assert (state.machine, state.process, state.current_job) == ("box", this_process(), "")
    assert state.heartbeat_at == state.started_at == workspace.dependencies.now()
    assert state.devices == (
        DeviceState(device="cuda:0", name="Fake GPU", users=("python3 (PID 7)",)),
    )
    assert [disk.name for disk in state.disks] == ["state", "store", "traces"]
    assert all(0 < disk.free_bytes <= disk.total_bytes for disk in state.disks)
    assert (state.num_waiting, state.num_broken) == (1, 0)


def test_devices_are_not_queried_during_a_measurement(workspace: Workspace) -> None:
    jobs: list[str] = []
    reporter = make_reporter(workspace, jobs=jobs)
    before = reporter.state()
    jobs.append("job night")
    num_commands = len(MACHINE.commands)
    during = reporter.state()
    # Other processes write to the disk meanwhile.
    assert during == replace(before, current_job="job night", disks=during.disks)
    assert len(MACHINE.commands) == num_commands


def test_a_locked_store_hears_the_next_heartbeat(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_args: object, **_kwargs: object) -> None:
        raise StoreLocked("held by PID 7")

    reporter = make_reporter(workspace, jobs=[])
    with monkeypatch.context() as patched:
        patched.setattr(Store, "write", locked)
        reporter.report()
    assert load_health(workspace.store()).schedulers == ()
    reporter.report()
    assert len(load_health(workspace.store()).schedulers) == 1


def test_the_scheduler_reports_when_its_schedules_fire_next(tmp_path: Path) -> None:
    night = Schedule(
        name="night",
        cron="30 2 1 1 *",
        timezone="Europe/Berlin",
        suite="mine",
        toolchain="current",
    )
    with scheduling({"night": night}, state_dir=tmp_path, wake=threading.Event()) as scheduler:
        (state,) = scheduler.states()
    assert (state.name, state.rule) == ("night", "30 2 1 1 * Europe/Berlin")
    assert state.next_at is not None
    assert (state.next_at.hour, state.next_at.minute) == (1, 30)
    assert state.next_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("duckdb:////data/store.duckdb", Path("/data")),
        ("duckdb:///:memory:", None),
        ("postgresql+psycopg://hud@host/hud", None),
    ],
)
def test_only_a_file_has_a_disk_of_the_store(url: str, folder: Path | None) -> None:
    assert store_folder(url) == folder
