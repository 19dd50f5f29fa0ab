from __future__ import annotations

from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert, Event, EventKind
from compile_hud.runner.cli.run.after_run import texts_of
from compile_hud.runner.detection.detect import DetectReport
from tests.support.builders import make_alert, make_case

EVENT = Event(id="e", kind=EventKind.REVISION, title="2 of 9 cases: slower", size=2)
REPORT = DetectReport(alerts=(), new=(), fixed=(), events={"e": EVENT})


def alert(model: str = "bert", *, event_id: str = "e") -> Alert:
    plain = make_alert(model, case=make_case(model))
    return replace(plain, event_id=event_id, cause_text="compiler side")


def test_many_alerts_of_one_event_are_one_line(words: SnapshotAssertion) -> None:
    alerts = [alert("bert"), alert("vit")]
    assert list(texts_of(alerts, REPORT, has_places=True)) == words


def test_alert_alone_is_reported_by_its_case_and_cause(words: SnapshotAssertion) -> None:
    key = make_case().key
    assert list(texts_of([alert()], REPORT, has_places=False)) == [f"{key} latency: compiler side"]
    assert list(texts_of([alert()], REPORT, has_places=True)) == words


def test_alerts_whose_event_is_not_known_are_reported_one_by_one() -> None:
    alerts = [alert("bert", event_id="gone"), alert("vit", event_id="gone")]
    assert len(list(texts_of(alerts, REPORT, has_places=False))) == 2
