"""The notified changes of alerts, and their receivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from compile_hud.db.records.alerts import Alert, AlertState, Event, EventKind
from compile_hud.db.records.notifications import (
    AlertChangeKind,
    ChangeGroup,
    Severity,
    notification_id,
)
from compile_hud.db.records.results import Dtype, Phase, Verdict
from compile_hud.db.records.triage import Revision
from compile_hud.runner.analysis.alerts.lifecycle import Update
from compile_hud.runner.analysis.alerts.severity import severity_of, worst_severity
from compile_hud.runner.notifications.alert_changes import diff_alerts, is_current
from compile_hud.runner.notifications.routes import Route
from compile_hud.runner.notifications.routing import (
    MAX_HOLD,
    NotificationPlanner,
    make_notifications,
)
from tests.support.builders import START, make_alert, make_case, make_run_ref

EVENT = Event(id="event", kind=EventKind.REVISION, title="2 of 9 cases: slower", size=2)
ALERT = make_alert()
REFUTED = replace(ALERT, is_confirmed=False)
QUEUED = replace(ALERT, bisection={"state": "queued", "bisection_id": ""})
BISECTED = replace(ALERT, bisection={"state": "ended", "bisection_id": "b1"})


def kinds(before: Alert | None, after: Alert) -> list[str]:
    stored = [] if before is None else [before]
    return [str(item.kind) for item in diff_alerts(stored, [after], events={}, at=START)]


def state(alert: Alert, name: str) -> Alert:
    return replace(alert, state=AlertState(name))


ACKNOWLEDGED = state(ALERT, "acknowledged")


def change_of(*alerts: Alert, kind: AlertChangeKind = AlertChangeKind.OPENED) -> ChangeGroup:
    return ChangeGroup(
        kind=kind, subject="s", title="t", alerts=alerts, stamps=("run",) * len(alerts)
    )


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (None, ALERT, "opened"),
        (None, state(ALERT, "fixed"), ""),
        (ALERT, replace(ALERT, candidate=0.0121), ""),
        (state(ALERT, "fixed"), ALERT, "reopened"),
        (ACKNOWLEDGED, ALERT, "reopened"),
        (ALERT, state(ALERT, "fixed"), "fixed"),
        (ACKNOWLEDGED, state(ALERT, "fixed"), "fixed"),
        (state(ALERT, "noise"), state(ALERT, "fixed"), ""),
        (state(ALERT, "expected"), state(ALERT, "expected"), ""),
        (ALERT, replace(ALERT, change_pct=30.0), "worsened"),
        (ACKNOWLEDGED, replace(ACKNOWLEDGED, change_pct=30.0), "worsened"),
        (replace(ALERT, change_pct=30.0), ALERT, ""),
        (None, REFUTED, ""),
        (ALERT, REFUTED, ""),
        (REFUTED, replace(ALERT, is_confirmed=True), "opened"),
        (REFUTED, state(REFUTED, "fixed"), ""),
        (replace(state(ALERT, "fixed"), verdict=Verdict.INCONCLUSIVE), ALERT, "opened"),
        (ALERT, QUEUED, ""),
        (QUEUED, BISECTED, "bisected"),
        (BISECTED, replace(BISECTED, last_seen=START), ""),
        (BISECTED, replace(BISECTED, change_pct=30.0), "worsened"),
        (QUEUED, state(BISECTED, "fixed"), "fixed"),
        (state(QUEUED, "noise"), state(BISECTED, "noise"), ""),
    ],
)  # fmt: skip
def test_changes_for_users_have_a_kind(before: Alert | None, after: Alert, kind: str) -> None:
    assert kinds(before, after) == [kind] * bool(kind)


def test_muted_alerts_are_not_notified() -> None:
    muted = replace(ALERT, muted_until=START + timedelta(days=1))
    assert kinds(None, muted) == []
    assert kinds(None, replace(ALERT, muted_until=START)) == ["opened"]


def test_one_event_in_many_series_is_one_notification() -> None:
    both = [replace(make_alert(name), event_id="event") for name in ("a", "b")]
    (group,) = diff_alerts([], both, events={"a": EVENT, "b": EVENT}, at=START)
    assert (group.subject, group.title) == ("event", "2 of 9 cases: slower")
    assert [alert.id for alert in group.alerts] == ["a", "b"]


def test_alert_alone_is_reported_by_its_case_and_change() -> None:
    alone = replace(ALERT, cause_text="compiler side")
    (group,) = diff_alerts([], [alone], events={"alert-1": EVENT}, at=START)
    assert group.title == f"{ALERT.case.key}: latency +20.0 %"


def test_alert_without_a_size_is_reported_by_what_happened() -> None:
    failed = replace(
        ALERT,
        kind="outcome",
        metric="outcome",
        baseline=None,
        candidate=None,
        change_pct=None,
        cause_text="ok -> failed: OOM; since the last",
    )
    (group,) = diff_alerts([], [failed], events={}, at=START)
    assert group.title == f"{ALERT.case.key}: failing, ok -> failed: OOM"


def test_change_from_zero_is_reported_by_its_levels() -> None:
    from_zero = replace(
        ALERT, metric="spill_bytes", unit="B", baseline=0.0, candidate=4096.0, change_pct=None
    )
    (group,) = diff_alerts([], [from_zero], events={}, at=START)
    assert group.title == f"{ALERT.case.key}: spill_bytes 0 B -> 4.0 KiB"


def test_alerts_of_an_event_that_is_not_known_are_reported_by_the_worst() -> None:
    both = [
        replace(make_alert("a"), event_id="event"),
        replace(make_alert("b", case=make_case("vit"), change_pct=40.0), event_id="event"),
    ]
    (group,) = diff_alerts([], both, events={}, at=START)
    assert group.title == f"{make_case('vit').key}: latency +40.0 % and 1 more"


@pytest.mark.parametrize(
    ("alert", "severity"),
    [
        (make_alert(change_pct=5.0), Severity.MINOR),
        (make_alert(change_pct=10.0), Severity.MAJOR),
        (make_alert(change_pct=25.0), Severity.SEVERE),
        # A fifth less of something that should be high costs a quarter more.
        (make_alert(metric="speedup", change_pct=-20.0), Severity.SEVERE),
        (make_alert(kind="outcome"), Severity.SEVERE),
        (make_alert(kind="vanished"), Severity.MAJOR),
        (make_alert(verdict="improvement", change_pct=-50.0), Severity.MINOR),
    ],
)
def test_severity_follows_the_cost(alert: Alert, severity: Severity) -> None:
    if alert.kind != "step":
        alert = replace(alert, change_pct=None)
    assert severity_of(alert) is severity
    assert worst_severity([alert, make_alert(change_pct=1.0)]) is severity


def test_a_settled_alert_is_not_notified_and_a_recovery_is() -> None:
    for over in (REFUTED, state(ALERT, "noise"), state(ALERT, "expected")):
        assert not is_current(AlertChangeKind.OPENED, over, at=START)
        assert is_current(AlertChangeKind.FIXED, over, at=START)
    assert is_current(AlertChangeKind.OPENED, state(ALERT, "acknowledged"), at=START)
    muted = replace(ALERT, muted_until=START + timedelta(days=1))
    assert not is_current(AlertChangeKind.FIXED, muted, at=START)


def test_key_is_stable_and_differs_by_receiver_kind_alert_and_occurrence() -> None:
    one, other = make_alert("a"), make_alert("b")

    def key(group: ChangeGroup, receiver: str = "ops") -> str:
        return notification_id(group, receiver=receiver, alerts=group.alerts)

    first = key(change_of(one, other))
    assert first == key(change_of(other, one))
    again = replace(change_of(one, other), stamps=("run", "another run"))
    different = [
        first,
        key(change_of(one)),
        key(change_of(one, other, kind=AlertChangeKind.FIXED)),
        key(change_of(one, other), receiver="dev"),
        key(again),
    ]
    assert len(set(different)) == len(different)


def test_an_alert_that_is_fixed_twice_is_notified_twice() -> None:
    keys = set()
    for days in (1, 2, 2):
        fixed = replace(state(ALERT, "fixed"), last_seen=START + timedelta(days=days))
        (group,) = diff_alerts([ALERT], [fixed], events={}, at=START)
        keys.add(notification_id(group, receiver="ops", alerts=group.alerts))
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("route", "is_taken"),
    [
        (Route(name="r", receivers=("ops",)), True),
        (Route(name="r", receivers=("ops",), models=("b*",)), True),
        (Route(name="r", receivers=("ops",), imported=True), True),
        (Route(name="r", receivers=("ops",), models=("vit", "gpt*")), False),
        (Route(name="r", receivers=("ops",), modes=("max-*",)), True),
        (Route(name="r", receivers=("ops",), modes=("*-dynamic",)), True),
        (Route(name="r", receivers=("ops",), modes=("default",)), False),
        (Route(name="r", receivers=("ops",), metrics=("peak_*",)), False),
        (Route(name="r", receivers=("ops",), severities=("major",)), True),
        (Route(name="r", receivers=("ops",), severities=("severe",)), False),
        (Route(name="r", receivers=("ops",), owners=("ada",)), True),
        (Route(name="r", receivers=("ops",), owners=("bob",)), False),
        (Route(name="r", receivers=("ops",), verdicts=("improvement",)), False),
        (Route(name="r", receivers=("ops",), news=("fixed",)), False),
        (Route(name="r", receivers=("ops",), machines=("gpu-*",)), True),
        (Route(name="r", receivers=("ops",), machines=("cpu-*",)), False),
        (Route(name="r", receivers=("ops",), devices=("cuda",)), True),
        (Route(name="r", receivers=("ops",), devices=("cpu",)), False),
        (Route(name="r", receivers=("ops",), toolchains=("night*",)), True),
        (Route(name="r", receivers=("ops",), toolchains=("current",)), False),
        (Route(name="r", receivers=("ops",), phases=("training",)), True),
        (Route(name="r", receivers=("ops",), phases=("inference",)), False),
        (Route(name="r", receivers=("ops",), dtypes=("bf*",)), True),
        (Route(name="r", receivers=("ops",), dtypes=("fp32",)), False),
        (Route(name="r", receivers=("ops",), findings=("graph-*",)), True),
        (Route(name="r", receivers=("ops",), findings=("host-bound",)), False),
    ],
)
def test_a_route_takes_what_fits_all_of_its_lists(route: Route, is_taken: bool) -> None:
    case = make_case(
        mode="max-autotune",
        variant="max-autotune-dynamic",
        device="cuda",
        phase=Phase.TRAINING,
        dtype=Dtype.BF16,
    )
    alert = make_alert(case=case, machine="gpu-7", toolchain="nightly")
    alert = replace(alert, owner="ada")
    taken = route.takes(alert, kind=AlertChangeKind.OPENED, findings=("graph-break",))
    assert taken is is_taken


def test_a_route_by_finding_reads_those_behind_the_alerts_before_the_store_is_written() -> None:
    new = make_alert("new", first_bad=make_run_ref())
    requested: list[str] = []

    def find(alerts: Sequence[Alert]) -> dict[str, tuple[str, ...]]:
        requested.extend(alert.id for alert in alerts)
        return {"new": ("graph-break",)}

    by_finding = Route(name="r", receivers=("ops",), findings=("graph-break",))
    planner = NotificationPlanner(routes=[by_finding], now=lambda: START, find=find)
    # In the store the alert has another id.
    revisions = [Revision(alert=replace(new, id="stored"))]
    assert planner.notifications([], revisions, events={}) == []
    (notification,) = planner.with_findings([new]).notifications([], revisions, events={})
    assert notification.alert_ids == ("stored",)
    assert requested == ["new"]


def test_only_changed_alerts_have_their_findings_read() -> None:
    old, fixed = make_alert("old"), make_alert("fixed", case=make_case("vit"))
    new = make_alert("new", case=make_case("gpt2"))
    requested: list[str] = []

    def find(alerts: Sequence[Alert]) -> dict[str, tuple[str, ...]]:
        requested.extend(alert.id for alert in alerts)
        return {}

    def update(_before: Sequence[Alert]) -> Update:
        after = (old, replace(fixed, state=AlertState.FIXED), new)
        return Update(
            alerts=after,
            revisions=tuple(Revision(alert=alert) for alert in after),
            new=(),
            fixed=(),
            events={},
        )

    by_finding = Route(name="r", receivers=("ops",), findings=("graph-break",))
    planner = NotificationPlanner(routes=[by_finding], now=lambda: START, find=find)
    planner.with_findings_of_changes([old, fixed], update)
    assert requested == ["fixed", "new"]
    assert replace(planner, routes=()).with_findings_of_changes([], pytest.fail).codes == {}


def test_routes_without_findings_read_none() -> None:
    def find(_alerts: Sequence[Alert]) -> dict[str, tuple[str, ...]]:
        pytest.fail("no route needs them")

    planner = NotificationPlanner(routes=[Route(name="r", receivers=("ops",))], find=find)
    assert planner.with_findings([ALERT]) is planner


def test_each_receiver_is_notified_once_of_the_alerts_of_all_its_routes() -> None:
    alerts = [make_alert("a"), make_alert("b", case=make_case("vit"))]
    routes = [
        Route(name="1", receivers=("ops", "dev"), models=("bert",)),
        Route(name="2", receivers=("ops",), models=("*",)),
        Route(name="3", receivers=("nobody",), models=("gpt2",)),
    ]
    notifications = make_notifications(change_of(*alerts), routes=routes, at=START)
    assert {item.receiver: item.alert_ids for item in notifications} == {
        "ops": ("a", "b"),
        "dev": ("a",),
    }
    assert len({item.id for item in notifications}) == 2


def test_what_is_measured_again_first_waits_for_that() -> None:
    route = Route(name="r", receivers=("ops",))
    revisions = [Revision(alert=make_alert(first_bad=make_run_ref()))]
    now = NotificationPlanner(routes=[route], now=lambda: START)
    (at_once,) = now.notifications([], revisions, events={})
    (notification,) = replace(now, holder="me").notifications([], revisions, events={})
    assert (at_once.due_at, at_once.holder) == (START, "")
    assert (notification.due_at, notification.holder, notification.id) == (
        START + MAX_HOLD,
        "me",
        at_once.id,
    )


@pytest.mark.parametrize("is_notified", [True, False])
def test_imported_alerts_are_notified_only_by_routes_that_include_them(is_notified: bool) -> None:
    imported = replace(ALERT, toolchain="imported:pytorch/main")
    route = Route(name="r", receivers=("ops",), imported=is_notified)
    assert route.takes(imported, kind=AlertChangeKind.OPENED) is is_notified
    notifications = make_notifications(change_of(imported, ALERT), routes=[route], at=START)
    assert [item.alert_ids for item in notifications] == [(ALERT.id,)]
