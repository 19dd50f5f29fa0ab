"""The page of health, and the role that may send failed messages again."""

from __future__ import annotations

import dataclasses
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.data import health as health_data
from compile_hud.db.alerts.outbox import load_outbox
from compile_hud.db.jobs.health import (
    DeviceState,
    DiskState,
    SchedulerState,
    ScheduleState,
    save_scheduler,
)
from compile_hud.db.records.notifications import NotificationState
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.shared.settings_snapshot import (
    SETTINGS_VARIABLE,
    ShownSetting,
    settings_to_json,
)
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage, SignIn
from tests.support.builders import make_notification
from tests.support.pages.page_elements import (
    cells_of_rows,
    html_of,
    text_of,
    texts_of,
    texts_of_rows,
)
from tests.support.stores import dashboard_stores

HOSTILE = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}" + "x" * 10_000


@pytest.fixture
def store(seeded: Path) -> Store:
    """Return a filled store with a scheduler, two jobs and a message that was given up."""
    store = Store(f"duckdb:///{seeded}", now=lambda: dashboard_stores.NOW)
    save_scheduler(store, scheduler())
    for name, why in (("first", HOSTILE), ("second", "")):
        store.enqueue_job(
            dedupe_key=name, suite="nightly", toolchain="stable", trigger=f"schedule {name}"
        )
        if why:
            job = store.lease_job()
            assert job is not None
            store.finish_job(job.id, run_id="run-003", state="failed", reason=why)
    dead = dataclasses.replace(
        make_notification("msg_1"), title=HOSTILE, state=NotificationState.DEAD
    )
    with store.write() as connection:
        put_notifications(connection, [dead])
    return store


def scheduler(*, silent_s: float = 20.0) -> SchedulerState:
    """Return what a scheduler said of itself."""
    return SchedulerState(
        machine="box",
        process="box/1/2",
        version="0.1.0",
        started_at=dashboard_stores.NOW - timedelta(days=2),
        heartbeat_at=dashboard_stores.NOW - timedelta(seconds=silent_s),
        current_job=HOSTILE,
        schedules=(
            ScheduleState(
                name="night",
                suite="nightly",
                toolchain="stable",
                rule="each night at 02:30",
                next_at=dashboard_stores.NOW + timedelta(hours=1),
                note=HOSTILE,
            ),
        ),
        devices=(DeviceState(device="cuda", name=HOSTILE, users=(HOSTILE,)),),
        disks=(DiskState(name="store", path=HOSTILE, free_bytes=2**40, total_bytes=2**41),),
        num_waiting=3,
    )


@pytest.mark.usefixtures("store")
def test_the_page_shows_schedulers_next_runs_queue_devices_and_disks(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("health")
    assert not page.exception
    assert texts_of_rows(page, "schedulers")[0][:2] == ["box", "alive"]
    assert texts_of_rows(page, "next runs")[0][:4] == [
        "night",
        "in 1 h 00 min",
        "each night at 02:30",
        "nightly",
    ]
    queued = cells_of_rows(page, "jobs in the queue")[0]
    assert (queued["state"], queued["suite"]) == ("queued", "nightly")
    assert cells_of_rows(page, "jobs that ended")[0]["state"] == "failed"
    assert texts_of_rows(page, "disks")[0][2:5] == ["1024 GiB", "2048 GiB", "50.0 %"]
    assert texts_of(page, "notice") == words
    assert "<script" not in html_of(page)
    assert len(html_of(page)) < 60_000


@pytest.mark.parametrize(("name", "is_shown"), [("old", False), ("ops", True)])
def test_notifications_without_a_receiver_are_reported(
    open_page: OpenPage, store: Store, monkeypatch: pytest.MonkeyPatch, name: str, is_shown: bool
) -> None:
    with store.write() as connection:
        put_notifications(connection, [make_notification("msg_2", receiver="old")])
    receiver = ShownSetting(section=f"receivers.{name}", key="url", value="", is_set=True)
    monkeypatch.setenv(SETTINGS_VARIABLE, settings_to_json([receiver]))
    text = "1 message waits for the receiver old, which hud.toml does not name"
    assert (text in text_of(open_page("health"))) is is_shown


def test_a_scheduler_that_fell_silent_is_reported_first(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    save_scheduler(store, scheduler(silent_s=3600))
    page = open_page("health")
    assert texts_of(page, "notice") == words
    assert texts_of_rows(page, "next runs") == []


def test_an_admin_lets_messages_be_sent_again(
    open_page: OpenPage,
    store: Store,
    sign_in: SignIn,
    caplog: pytest.LogCaptureFixture,
    words: SnapshotAssertion,
) -> None:
    caplog.set_level(logging.INFO)
    sign_in("ada")
    page = open_page("health")
    page.button(key="send-again").click().run()
    assert texts_of(page, "notice") == words
    (item,) = load_outbox(store)
    assert item.state is NotificationState.PENDING
    assert [text for text in caplog.messages if "msg_1" in text] == words
    assert health_data.send_again(["msg_1"]) == words


@pytest.mark.parametrize("name", ["tom", "eve", ""])
def test_others_cannot_send_messages_again(
    name: str, open_page: OpenPage, store: Store, sign_in: SignIn, words: SnapshotAssertion
) -> None:
    sign_in(name)
    page = open_page("health")
    assert "send-again" not in [button.key for button in page.button]
    assert health_data.send_again(["msg_1"]) == words
    assert load_outbox(store)[0].state is NotificationState.DEAD
