from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.runner.interop.exporters.openmetrics import family_name, to_openmetrics
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)


def night(number: int, *, results: Sequence[CaseResult] = ()) -> RunDocument:
    at = START + timedelta(days=number)
    run = make_run(f"run-{number}", started_at=at, finished_at=at, revision=f"rev-{number}")
    return make_document(run, results=results)


def parsed(*documents: RunDocument) -> dict[str, Any]:
    """Return the families that the reference parser finds, by name."""
    text = b"".join(to_openmetrics(documents)).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_runs_of_a_case_are_points_of_one_line_in_order() -> None:
    families = parsed(night(1), night(0))
    latency = families["hud_latency_seconds"]
    assert (latency.type, latency.unit) == ("gauge", "seconds")
    assert [sample.value for sample in latency.samples] == [0.011, 0.011]
    times = [float(sample.timestamp) for sample in latency.samples]
    assert times == [START.timestamp(), START.timestamp() + 86400]
    (labels,) = {tuple(sample.labels.items()) for sample in latency.samples}
    assert dict(labels)["model"] == "bert"
    assert dict(labels)["machine"] == "box"


def test_the_outcome_of_a_case_is_a_label() -> None:
    run = make_run()
    failed = make_document(run, results=[make_result(run=run, outcome="timeout")])
    (sample,) = parsed(failed)["hud_outcome"].samples
    assert (sample.labels["outcome"], sample.value) == ("timeout", 1)


def test_the_revision_of_a_run_is_reported_once() -> None:
    (first, second) = parsed(night(0), night(1))["hud_run"].samples
    assert first.labels == {"run": "run-0", "revision": "rev-0", "suite": "quick"}
    assert second.labels["revision"] == "rev-1"


def test_text_that_would_end_a_label_does_not() -> None:
    name = 'a"b\\c\nd{e="f"} 1 # EOF'
    result = make_result(case=make_case(name))
    (sample,) = parsed(make_document(results=[result]))["hud_latency_seconds"].samples
    assert sample.labels["model"] == name


@pytest.mark.parametrize(
    ("metric", "unit", "name"),
    [
        ("latency_s", "s", "hud_latency_seconds"),
        ("peak_bytes", "B", "hud_peak_bytes"),
        ("speedup", "x", "hud_speedup_ratio"),
        ("compression_ratio", "x", "hud_compression_ratio"),
        ("bandwidth_bytes_per_s", "B/s", "hud_bandwidth_bytes_per_second"),
        ("graph_breaks", "1", "hud_graph_breaks"),
        ("ttft", "ms", "hud_ttft_ms"),
    ],
)
def test_a_family_is_named_with_its_unit_in_full(metric: str, unit: str, name: str) -> None:
    assert family_name(make_measurement(metric, unit=unit))[0] == name


def test_every_metric_of_ours_makes_a_family_that_parses() -> None:
    measurements = [make_measurement(name, samples=[1.5]) for name in METRICS]
    result = make_result(measurements=measurements)
    families = parsed(make_document(results=[result]))
    assert set(families) == {
        "hud_outcome",
        "hud_run",
        *(family_name(measurement)[0] for measurement in measurements),
    }
    assert len(families) == 2 + len(METRICS)


def test_foreign_metrics_that_differ_in_signs_alone_stay_apart() -> None:
    names = ["a(b)", "a[b]", "a b"]
    result = make_result(measurements=[make_measurement(name, unit="req/s") for name in names])
    families = parsed(make_document(results=[result]))
    assert len([name for name in families if name.startswith("hud_a_b")]) == len(names)


def test_nothing_is_still_a_whole_exposition() -> None:
    assert set(parsed()) == {"hud_outcome", "hud_run"}
