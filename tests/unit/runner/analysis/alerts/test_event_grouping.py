from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert, EventKind
from compile_hud.db.records.results import REFERENCE_FAMILY, Case, RunRef, RunState, Verdict
from compile_hud.db.records.summaries import PlannedRun
from compile_hud.runner.analysis.alerts.event_grouping import events_of, topic_of
from tests.support.builders import FINGERPRINT, START, make_alert, make_case

MODELS = ("bert", "vit", "t5")
PLAN = tuple(make_case(model, mode=mode) for model in MODELS for mode in ("eager", "default"))


def runs(num_nights: int = 10, *, plan: Sequence[Case] = PLAN) -> list[PlannedRun]:
    return [
        PlannedRun(
            id=f"run-{number}",
            at=START + timedelta(days=number),
            revision=f"dev{number}",
            suite="nightly",
            state=RunState.FINISHED,
            machine="box",
            toolchain="stable",
            fingerprint=FINGERPRINT,
            plan=tuple(plan),
        )
        for number in range(num_nights)
    ]


def seen(number: int, *, revision: str | None = None) -> RunRef:
    at = START + timedelta(days=number)
    return RunRef(run_id=f"run-{number}", revision=revision or f"dev{number}", at=at)


def alert(model: str = "bert", number: int = 5, **facts: object) -> Alert:
    name = f"{model} {number} {sorted(facts.items(), key=str)}"
    values = {
        "case": make_case(model),
        "metric": "latency_s",
        "change_pct": 10.0,
        "first_bad": seen(number),
        "last_good": seen(number - 1),
    }
    return make_alert(name, **values | facts)  # type: ignore[arg-type]


def sizes(alerts: Sequence[Alert]) -> list[tuple[EventKind, int]]:
    events = {event.id: event for event in events_of(alerts, runs=runs()).values()}
    return sorted((event.kind, event.size) for event in events.values())


def title(*alerts: Alert) -> str:
    (event_title,) = {event.title for event in events_of(alerts, runs=runs()).values()}
    return event_title


def test_metrics_of_one_case_are_one_event() -> None:
    metrics = ("latency_s", "latency_cpu_s", "speedup", "compile_cold_s", "graph_breaks")
    assert sizes([alert(metric=metric) for metric in metrics]) == [(EventKind.CASE, 5)]


def test_cases_of_one_model_are_one_event() -> None:
    cases = [alert(), alert(case=make_case("bert", mode="eager"))]
    assert sizes(cases) == [(EventKind.MODEL, 2)]


def test_same_step_in_many_models_is_one_event_of_the_revision() -> None:
    assert sizes([alert(model) for model in MODELS]) == [(EventKind.REVISION, 3)]


def test_step_without_a_new_revision_is_the_environments() -> None:
    same = {"last_good": seen(4, revision="dev5")}
    assert sizes([alert(model, **same) for model in MODELS]) == [(EventKind.ENVIRONMENT, 3)]


def test_step_that_the_machine_made_is_the_environments() -> None:
    alerts = [alert(model, cause_kind="machine") for model in MODELS]
    assert sizes(alerts) == [(EventKind.ENVIRONMENT, 3)]


@pytest.mark.parametrize(
    "other",
    [
        {"machine": "lab"},
        {"toolchain": "nightly"},
        {"number": 8},
        {"metric": "compile_cold_s"},
        {"verdict": Verdict.IMPROVEMENT},
    ],
)
def test_alerts_of_other_scope_night_topic_or_direction_are_another_event(
    other: dict[str, object],
) -> None:
    alerts = [alert("bert"), alert("vit"), alert("t5", **other)]
    assert sizes(alerts) == [(EventKind.CASE, 1), (EventKind.REVISION, 2)]


@pytest.mark.parametrize("number", [3, 5])
def test_neighbours_with_other_first_bad_revisions_are_other_events(number: int) -> None:
    alerts = [alert("bert", 4), alert("vit", 4), alert("t5", number)]
    assert sizes(alerts) == [(EventKind.CASE, 1), (EventKind.REVISION, 2)]
    titles = {event.title for event in events_of(alerts, runs=runs()).values()}
    assert {text.split(" since ")[1].split()[0] for text in titles} == {"dev4", f"dev{number}"}


def test_metrics_of_one_case_that_change_with_other_revisions_are_other_events() -> None:
    slower = alert(number=7, metric="alpha")
    faster = [
        alert(number=8, metric=name, verdict=Verdict.IMPROVEMENT) for name in ("beta", "gamma")
    ]
    events = events_of([slower, *faster], runs=runs())
    assert "since dev7 " in events[slower.id].title
    assert all("since dev8 " in events[item.id].title for item in faster)
    assert sorted(event.size for event in set(events.values())) == [1, 2]


@pytest.mark.parametrize("numbers", [(5, 5, 7), (5, 7, 7), (7, 7, 5)])
def test_cases_that_a_run_did_not_measure_may_have_changed_in_it(numbers: Sequence[int]) -> None:
    alerts = [
        alert(model, number, last_good=seen(4))
        for model, number in zip(MODELS, numbers, strict=True)
    ]
    assert sizes(alerts) == [(EventKind.REVISION, 3)]
    assert "since dev5 " in title(*alerts)


def test_a_good_result_in_between_divides_overlapping_ranges() -> None:
    wide, narrow, early = alert("bert", 6, last_good=seen(3)), alert("vit", 6), alert("t5", 4)
    assert sizes([wide, narrow, early]) == [(EventKind.CASE, 1), (EventKind.REVISION, 2)]
    assert sizes([wide, early]) == [(EventKind.REVISION, 2)]


@pytest.mark.parametrize(("number", "num_events"), [(6, 1), (7, 2)])
def test_the_next_run_of_one_revision_belongs_to_its_event(number: int, num_events: int) -> None:
    later = alert("vit", number, first_bad=seen(number, revision="dev5"))
    assert len(sizes([alert("bert", 5), later])) == num_events


@pytest.mark.parametrize(
    "facts", [{"kind": "vanished", "metric": "outcome"}, {"kind": "late"}, {"kind": "variance"}]
)
def test_what_has_no_exact_start_may_start_a_run_apart(facts: dict[str, object]) -> None:
    apart = [alert(model, number, **facts) for model, number in (("bert", 3), ("vit", 4))]
    assert len(sizes(apart)) == 1
    far = [alert(model, number, **facts) for model, number in (("bert", 3), ("vit", 5))]
    assert len(sizes(far)) == 2


def test_identity_stays_when_alerts_join_and_does_not_depend_on_order() -> None:
    first = [alert("bert"), alert("vit")]
    before = events_of(first, runs=runs())[first[0].id]
    joined = [alert("t5"), *reversed(first)]
    after = events_of(joined, runs=runs())[first[0].id]
    assert (before.id, before.size, after.size) == (after.id, 2, 3)


def test_alert_of_a_pruned_run_stands_alone() -> None:
    gone = alert("bert", 77)
    assert sizes([gone, alert("vit"), alert("t5")]) == [
        (EventKind.CASE, 1),
        (EventKind.REVISION, 2),
    ]


def test_title_says_who_what_and_since_when(words: SnapshotAssertion) -> None:
    assert title(alert("bert", change_pct=4.2), alert("vit", change_pct=9.04)) == (words)
    assert title(alert(), alert(case=make_case("bert", mode="eager"))) == (words)
    assert title(alert()) == words


def test_title_names_the_first_start_in_whatever_order_alerts_come(
    words: SnapshotAssertion,
) -> None:
    unmeasured = {"last_good": seen(4)}
    earlier, later = alert("bert", 5), alert("vit", 6, **unmeasured)
    both = "2 of 6 cases in 2 models: slower by 10.0 % since {} (stable on box)"
    assert title(earlier, later) == title(later, earlier) == both.format("dev5")
    more = alert("vit", 6, case=make_case("vit", mode="eager"), **unmeasured)
    assert title(earlier, later, more) == words


def test_title_of_an_environment_says_so(words: SnapshotAssertion) -> None:
    same = {"last_good": seen(4, revision="dev5"), "verdict": Verdict.IMPROVEMENT}
    assert title(*(alert(model, **same) for model in MODELS)) == (words)


def test_title_counts_a_lower_speedup_as_slower_by_as_much() -> None:
    assert "slower by 25.0 %" in title(alert(metric="speedup", change_pct=-20.0))


def test_title_tells_the_worst_first() -> None:
    compiling = alert(metric="compile_cold_s", change_pct=-30.0, verdict=Verdict.IMPROVEMENT)
    assert "slower by 10.0 %" in title(compiling, alert())
    failing = alert(kind="outcome", metric="outcome", change_pct=None)
    assert title(failing, alert()).startswith(f"{make_case().key}: failing since dev5")
    vanished = alert(kind="vanished", metric="outcome", change_pct=None)
    assert "slower by 10.0 % since dev5" in title(vanished, alert())


@pytest.mark.parametrize(
    "kinds", [["vanished", "vanished"], ["late", "late"], ["late", "vanished"]], ids=" ".join
)
def test_title_tells_missing_from_late_cases_and_gives_the_day(
    kinds: list[str], words: SnapshotAssertion
) -> None:
    alerts = [
        alert(model, kind=kind, metric="outcome", change_pct=None)
        for model, kind in zip(MODELS, kinds, strict=False)
    ]
    assert title(*alerts) == words


def test_title_names_the_metrics_that_vanished_and_since_which_revision(
    words: SnapshotAssertion,
) -> None:
    vanished = [
        alert(model, kind="vanished", metric="speedup", change_pct=None) for model in MODELS
    ]
    assert title(*vanished) == words
    both = alert(kind="vanished", metric="latency_s", change_pct=None)
    assert title(vanished[0], both) == words
    gone = alert("vit", kind="vanished", metric="outcome", change_pct=None)
    assert title(vanished[0], gone) == words


def test_title_of_missing_cases_gives_the_day_of_most_of_them() -> None:
    alerts = [
        alert(model, number, kind="vanished", metric="outcome", change_pct=None)
        for model, number in zip(MODELS, (4, 5, 5), strict=True)
    ]
    assert "missing since 2026-01-06 " in title(*alerts)
    assert "missing since 2026-01-05 " in title(*alerts[:2])


def drift(model: str = "bert", *, began: int, first_seen: int, **facts: object) -> Alert:
    ends = {"last_good": seen(began), "first_bad": seen(first_seen)}
    return alert(model, first_seen, kind="drift", **ends, **facts)


def test_a_drift_is_dated_by_its_start(words: SnapshotAssertion) -> None:
    assert title(drift(began=1, first_seen=8)) == words


def test_a_drift_belongs_to_the_event_of_its_last_step(
    words: SnapshotAssertion,
) -> None:
    early, late, other = alert(number=3), alert(number=6), alert("vit", number=6)
    slow = drift(began=1, first_seen=8)
    events = events_of([slow, early, late, other], runs=runs())
    assert events[slow.id] == events[late.id] == events[other.id] != events[early.id]
    assert (events[slow.id].size, events[early.id].size) == (3, 1)
    # Of one model, the drift tells what it has come to; of several the steps do.
    assert events[slow.id].title == words
    alone = events_of([slow, early, late], runs=runs())[slow.id]
    assert alone.title == words
    both = [alert(number=6, case=make_case(mode="eager")), late, slow]
    shared = events_of(both, runs=runs())[slow.id]
    assert (shared.kind, shared.size) == (EventKind.MODEL, 3)
    assert shared.title == words
    same = [alert(model, 6, last_good=seen(5, revision="dev6")) for model in MODELS[:2]]
    joined = [*same, *(drift(model, began=1, first_seen=8) for model in MODELS[:2])]
    assert sizes(joined) == [(EventKind.ENVIRONMENT, 4)]
    # The id stays when a drift joins.
    assert events[late.id].id == events_of([early, late, other], runs=runs())[late.id].id


@pytest.mark.parametrize(
    "step",
    [
        alert(number=1),
        alert(number=9),
        alert(number=4, verdict=Verdict.IMPROVEMENT),
        alert(number=4, metric="peak_bytes"),
        alert(number=4, kind="variance"),
    ],
)
def test_a_drift_has_nothing_to_do_with_what_came_before_after_or_elsewhere(step: Alert) -> None:
    events = events_of([drift(began=1, first_seen=6), step], runs=runs())
    assert len({event.id for event in events.values()}) == 2


def test_title_names_the_metric_where_there_is_no_word_for_it() -> None:
    assert " graph breaks since" in title(alert(metric="graph_breaks", change_pct=None))


@pytest.mark.parametrize(
    ("facts", "topic"),
    [
        ({"kind": "late", "metric": "outcome"}, "missing"),
        ({"kind": "variance"}, "noise"),
        ({"kind": "drift"}, "drift"),
        ({"metric": "recompiles"}, "graphs"),
        ({"metric": "compile_warm_s"}, "compile time"),
        ({"metric": "cosine_similarity"}, "accuracy"),
        ({"metric": "flux"}, "flux"),
    ],
)
def test_topic_follows_from_kind_and_metric(facts: dict[str, object], topic: str) -> None:
    assert topic_of(alert(**facts)) == topic


def test_title_gives_the_revision_of_the_change_that_it_names() -> None:
    slower = alert(number=5)
    faster = [
        alert(number=6, metric=name, verdict=Verdict.IMPROVEMENT, last_good=seen(4))
        for name in ("speedup", "peak_bytes")
    ]
    named = title(slower, *faster)
    assert "slower" in named
    assert f"since {slower.first_bad.revision}" in named


def test_reference_cases_are_named_apart_from_models(words: SnapshotAssertion) -> None:
    def reference(model: str) -> Alert:
        case = make_case(model, mode="eager")
        return alert(model, case=dataclasses.replace(case, family=REFERENCE_FAMILY))

    copy, product = reference("ref_copy"), reference("ref_matmul")
    both = [alert("vit"), alert("t5", case=make_case("t5", mode="eager"))]
    assert title(*both, copy) == words
    assert title(*both, copy, product) == words
    assert title(alert("vit"), copy) == words
    assert title(copy, product) == words


def test_masked_kernels_of_two_models_are_one_event() -> None:
    alerts = [alert(model, kind="masked", metric="kernel_s") for model in ("bert", "vit")]
    assert sizes(alerts) == [(EventKind.REVISION, 2)]
    assert "by 10.0 % (masked)" in title(*alerts)
