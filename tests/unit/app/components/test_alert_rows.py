"""The order of alerts, and their rows."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.alert_rows import (
    ALERT_COLUMNS,
    IMPROVEMENT_COLUMNS,
    alert_row,
    lets_through,
    open_alerts,
)
from compile_hud.app.data.series import reportable_alerts
from compile_hud.app.ui.alert_text import alert_text, event_words
from compile_hud.app.ui.urls import OverviewState
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.results import Verdict
from tests.support.builders import START, make_alert, make_case, make_run, make_run_ref


def test_only_open_alerts_need_attention() -> None:
    alerts = [make_alert(state, state=state) for state in AlertState]
    assert [item.id for item in open_alerts(alerts, verdict=Verdict.REGRESSION)] == ["open"]


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("3 of 9 cases: slower since REV (stable on box)", "3 of 9 cases: slower"),
        ("3 cases: slower since REV (not by the revision) (stable on box)",)
        + ("3 cases: slower (not by the revision)",),
        ("3 cases: late since 2026-01-01 (stable on box)", "3 cases: late since 2026-01-01"),
        ("3 cases: slower since REV (nightly on box)",) * 2,
    ],
)
def test_an_event_is_named_by_facts_that_its_row_lacks(title: str, words: str) -> None:
    alert = make_alert()
    revision = alert.first_bad.revision
    assert event_words(title.replace("REV", revision), alert) == words.replace("REV", revision)


def test_noise_and_refuted_suspicions_say_nothing() -> None:
    alerts = [
        make_alert("own"),
        make_alert("fixed", state="fixed"),
        make_alert("noise", state="noise"),
        make_alert("refuted", state="fixed", verdict="unchanged"),
        make_alert("undecided", state="fixed", verdict="inconclusive"),
        make_alert("noisier", kind="variance", verdict="inconclusive"),
    ]
    assert [alert.id for alert in reportable_alerts(alerts)] == ["own", "fixed", "noisier"]


@pytest.mark.parametrize(
    ("facts", "topic", "mark"),
    [
        ({"kind": "step", "metric": "speedup"}, "speedup", "speedup +20.0 %"),
        (
            {"kind": "drift", "metric": "peak_bytes"},
            "peak memory (drift)",
            "peak memory (drift) +20.0 %",
        ),
        ({"kind": "variance"}, "latency (noise)", "latency (noise) +20.0 %"),
        ({"kind": "late", "metric": "outcome"}, "overdue", "overdue"),
    ],
)
def test_alert_is_about_the_metric_as_every_page_names_it(
    facts: dict[str, str], topic: str, mark: str
) -> None:
    change_pct = None if topic == "overdue" else 20.0
    alert = dataclasses.replace(make_alert(**facts), change_pct=change_pct)
    assert (alert_text(alert).topic, alert_text(alert).mark) == (topic, mark)


def test_change_of_a_count_from_0_is_reported_by_its_levels() -> None:
    alert = make_alert(
        metric="graph_breaks", unit="1", baseline=0.0, candidate=2.0, change_pct=None
    )
    assert alert_text(alert).change == "0 -> 2"


def test_the_best_improvement_comes_first() -> None:
    alerts = [
        make_alert("small", verdict=Verdict.IMPROVEMENT, change_pct=-6.0),
        make_alert("large", verdict=Verdict.IMPROVEMENT, change_pct=-40.0),
    ]
    ids = [alert.id for alert in open_alerts(alerts, verdict=Verdict.IMPROVEMENT)]
    assert ids == ["large", "small"]


@pytest.mark.parametrize(
    ("state", "is_through"),
    [
        (OverviewState(), True),
        (OverviewState(model="bert", phase="inference", dtype="fp32"), True),
        (OverviewState(machine="elsewhere"), True),
        (OverviewState(model="vit"), False),
        (OverviewState(phase="training"), False),
        (OverviewState(dtype="bf16"), False),
        (OverviewState(shape="full"), False),
        (OverviewState(device="cuda"), False),
    ],
)
def test_each_filter_filters(state: OverviewState, is_through: bool) -> None:
    assert lets_through(state, make_case("bert")) is is_through


def test_a_row_says_how_much_since_when_and_whether_it_was_confirmed(
    words: SnapshotAssertion,
) -> None:
    alert = make_alert(
        first_bad=make_run_ref(make_run("run-7")),
        last_good=make_run_ref(make_run("run-6", revision="2.12")),
        is_confirmed=True,
    )
    change, name, metric, revision, evidence = alert_row(alert, now=START + timedelta(days=3))
    assert len(ALERT_COLUMNS) == 5
    assert (change.text, change.style) == ("+20.0 %", "bad")
    assert change.href.startswith("series?case=bert%2Finference")
    assert [note.text for note in change.notes] == ["[+18.0, +22.0] %"]
    assert name.text == "bert default"
    assert (metric.text, metric.notes[0].text) == ("latency", "10.0 -> 12.0 ms")
    assert revision.href.startswith("run?run=run-7&case=bert")
    assert revision.notes[0].text == "3 d ago, 2026-01-01 02:30 UTC"
    assert revision.title == (words)
    assert evidence.text == words
    assert evidence.style == "prose"


def test_a_row_names_its_toolchain_where_there_are_several_and_leads_to_its_series(
    words: SnapshotAssertion,
) -> None:
    alert = make_alert(toolchain="nightly")
    change, name, *_ = alert_row(alert, now=START, names_toolchain=True)
    assert [note.text for note in name.notes] == words
    assert change.href.endswith("&machine=box&toolchain=nightly")
    _, alone, *_ = alert_row(alert, now=START)
    assert [note.text for note in alone.notes] == words


def test_a_row_without_numbers_has_words() -> None:
    alert = make_alert(kind="outcome", metric="outcome", unit="")
    change, _, metric, revision, evidence = alert_row(alert, now=START)
    assert (change.text, change.notes) == ("failing", ())
    assert (metric.text, metric.notes) == ("failing", ())
    assert revision.title == "first bad 2.13.0+abc1234 (2026-01-01 02:30 UTC)"
    assert evidence.text == "not re-measured"


def test_an_improvement_is_not_coloured_as_a_regression() -> None:
    alert = make_alert(verdict=Verdict.IMPROVEMENT, change_pct=-20.0)
    assert alert_row(alert, now=START)[0].style == "good"


def test_an_improvement_is_not_called_bad() -> None:
    alert = make_alert(verdict=Verdict.IMPROVEMENT, last_good=make_run_ref())
    assert alert_text(alert).bounds.startswith("first better 2.13.0+abc1234")
    assert "; last before 2.13.0+abc1234" in alert_text(alert).bounds
    labels = [column.label for column in IMPROVEMENT_COLUMNS]
    assert "first better revision" in labels
    assert len(labels) == len(ALERT_COLUMNS)


@pytest.mark.parametrize(
    ("kind", "verdict", "change", "mark"),
    [
        ("step", Verdict.REGRESSION, "+20.0 %", "latency +20.0 %"),
        ("outcome", Verdict.REGRESSION, "failing", "failing"),
        ("outcome", Verdict.IMPROVEMENT, "passing again", "passing again"),
        ("vanished", Verdict.REGRESSION, "missing", "missing"),
    ],
)
def test_a_change_reads_in_a_few_characters(
    kind: str, verdict: Verdict, change: str, mark: str
) -> None:
    alert = make_alert(kind=kind, verdict=verdict)
    assert (alert_text(alert).change, alert_text(alert).mark) == (change, mark)


def test_a_metric_that_vanished_is_named_once() -> None:
    missing = make_alert(kind="vanished", metric="speedup")
    assert (alert_text(missing).topic, alert_text(missing).change) == ("speedup", "missing")
    assert alert_text(missing).mark == alert_text(missing).named_change == "speedup missing"
    alert = make_alert(kind="vanished")
    assert (
        alert_text(alert).topic
        == alert_text(alert).change
        == alert_text(alert).named_change
        == "missing"
    )
    assert alert_text(make_alert()).named_change == "+20.0 %"


def test_levels_of_a_ratio_read_as_ratios() -> None:
    alert = make_alert(metric="speedup", unit="x", baseline=2.0, candidate=1.5)
    assert alert_text(alert).values == "2.00x -> 1.50x"


def test_no_levels_no_text() -> None:
    assert alert_text(make_alert(baseline=None)).values == ""
