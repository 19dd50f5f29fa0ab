"""The status line of the overview."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.urls import OverviewState
from compile_hud.app.views.overview.data import device_name, next_run, next_steps, open_items
from compile_hud.app.views.overview.records import KERNEL, SLOWER, OverviewStatus
from compile_hud.app.views.overview.status_line import (
    status_facts,
    status_html,
    status_note,
    status_title,
    steps_html,
)
from compile_hud.db.jobs.health import ScheduleState
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Outcome, RunState
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.shared.settings_snapshot import (
    SETTINGS_VARIABLE,
    ShownSetting,
    settings_to_json,
)
from tests.support.builders import START, make_alert, make_case, make_run, make_scheduler

NOW = START + timedelta(hours=6)


def status_of(*alerts: Alert, newest: tuple[str, ...] = (), model: str = "") -> OverviewStatus:
    """Return the status of a machine with these alerts and one run."""
    state = OverviewState(model=model)
    items, num_hidden = open_items(state, alerts, now=NOW, newest_runs=newest)
    numbers = {Outcome.OK: 11, Outcome.SAME_CODE: 2, Outcome.FAILED: 1, Outcome.UNAVAILABLE: 5}
    run = RunSummary(
        run=make_run(finished_at=START, state=RunState.FINISHED),
        num_by_outcome=numbers,
        worked_s=1.0,
        heartbeat_at=None,
    )
    return OverviewStatus(
        machine="box",
        toolchain="stable",
        names_toolchain=True,
        device="NVIDIA L4",
        items=items,
        num_hidden=num_hidden,
        num_elsewhere=0,
        learning="",
        run=run,
        has_previous_run=False,
        next_run=None,
        has_scheduler=False,
    )


def every_kind() -> tuple[Alert, ...]:
    """Return an alert of each kind, each of another model."""
    return (
        make_alert("a", case=make_case("bert"), change_pct=30.0),
        make_alert("b", case=make_case("bert"), metric="speedup", unit="x", change_pct=-9.0),
        make_alert("c", case=make_case("vit"), metric="peak_bytes", unit="B"),
        make_alert("d", case=make_case("unet"), kind="outcome", metric="outcome", unit=""),
        make_alert("e", case=make_case("t5"), kind="vanished", metric="outcome", unit=""),
        make_alert("f", case=make_case("moe"), kind="late", metric="outcome", unit=""),
    )


def test_cases_are_counted_by_kind_however_many_alerts_they_have(words: SnapshotAssertion) -> None:
    status = status_of(*every_kind())
    assert (status_title(status), status_note(status)) == words


def test_a_case_with_a_masked_kernel_is_not_slower() -> None:
    masked = make_alert("g", case=make_case("vit"), kind="masked")
    assert status_of(masked).items[0].kind == KERNEL
    slower = make_alert("h", case=make_case("vit"))
    assert status_of(masked, slower).items[0].kind == SLOWER


def test_what_began_with_the_newest_run_is_new(words: SnapshotAssertion) -> None:
    status = status_of(*every_kind(), newest=("run-1",))
    assert status_note(status) == words


def test_filters_hide_cases_and_the_note_counts_them(words: SnapshotAssertion) -> None:
    status = status_of(*every_kind(), model="vit")
    assert (status_title(status), status_note(status)) == words


def test_other_machines_are_counted_apart() -> None:
    elsewhere = replace(status_of(), num_elsewhere=4)
    assert status_note(elsewhere).split() == ["4", "on", "other", "machines"]
    assert status_title(elsewhere) == status_title(status_of())


def test_muted_alerts_and_those_of_the_machine_are_no_open_regressions() -> None:
    muted = replace(every_kind()[0], muted_until=NOW + timedelta(days=2))
    of_machine = replace(every_kind()[2], cause_kind="machine")
    assert status_of(muted, of_machine).items == []
    later, _ = open_items(OverviewState(), [muted], now=NOW + timedelta(days=3), newest_runs=set())
    assert len(later) == 1


def test_a_baseline_that_is_learnt_is_the_title_only_without_regressions(
    words: SnapshotAssertion,
) -> None:
    learning = replace(status_of(), learning="Learning: 2 of 7 runs")
    assert (status_title(learning), status_note(learning)) == words
    known = replace(status_of(*every_kind()[:1]), learning="Learning: 2 of 7 runs")
    assert status_title(known) == "1 open regression"
    assert status_title(status_of()) == "No open regressions"
    assert "state-part" in status_html(learning, now=NOW)
    assert "state-bad" in status_html(known, now=NOW)
    assert "state-none" in status_html(status_of(), now=NOW)


def test_the_facts_name_last_and_next_run_machine_and_torch(words: SnapshotAssertion) -> None:
    facts = {
        name: (cell.text, [note.text for note in cell.notes])
        for name, cell in status_facts(status_of(), now=NOW)
    }
    assert facts == words
    single = dict(status_facts(replace(status_of(), names_toolchain=False), now=NOW))
    assert single["torch"].notes == ()


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.INTERRUPTED])
def test_a_run_that_has_not_finished_says_so(state: RunState) -> None:
    status = status_of()
    assert status.run is not None
    status = replace(status, run=replace(status.run, run=replace(status.run.run, state=state)))
    facts = dict(status_facts(status, now=NOW))
    assert facts["last run"].notes[0].text == f"{state}, 13 of 14 ok"


def test_the_first_run_to_come_of_all_schedules_is_next() -> None:
    def schedule(name: str, hours: float | None) -> ScheduleState:
        at = None if hours is None else NOW + timedelta(hours=hours)
        return ScheduleState(name=name, suite="all", toolchain="t", rule="r", next_at=at)

    one = replace(make_scheduler(), schedules=(schedule("a", 9), schedule("late", -1)))
    other = replace(make_scheduler(), schedules=(schedule("b", 4), schedule("watch", None)))
    upcoming = next_run([one, other], now=NOW)
    assert upcoming is not None
    assert (upcoming.schedule, upcoming.at) == ("b", NOW + timedelta(hours=4))
    assert next_run([replace(one, schedules=(schedule("watch", None),))], now=NOW) is None
    facts = dict(status_facts(replace(status_of(), next_run=upcoming), now=NOW))
    assert facts["next run"].text == "in 4 h"


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"device_name": "NVIDIA L4", "cpu_model": "EPYC"}, "NVIDIA L4"),
        ({"cpu_model": "EPYC"}, "EPYC"),
        ({}, ""),
    ],
)
def test_a_machine_without_an_accelerator_is_named_by_its_processor(
    environment: dict[str, str], name: str
) -> None:
    assert device_name(make_run(environment=environment)) == name


def test_steps_that_hud_toml_has_are_done(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.delenv(SETTINGS_VARIABLE, raising=False)
    assert [step.is_done for step in next_steps(status_of())] == [False, False, False]
    settings = [
        ShownSetting(section="receivers.team", key="url", value="-", is_set=True),
        ShownSetting(section="models.ranker", key="build", value="-", is_set=True),
    ]
    monkeypatch.setenv(SETTINGS_VARIABLE, settings_to_json(settings))
    steps = next_steps(status_of())
    assert [step.is_done for step in steps] == [False, True, True]
    assert [(step.title, step.setting, step.command) for step in steps] == words
    assert steps_html(steps).count("(done)") == 2
