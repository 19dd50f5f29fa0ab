"""Every metric has a group on the page of a case."""

from __future__ import annotations

import pytest

from compile_hud.app.views.runs.measurements import GROUPS, OTHER, grouped
from compile_hud.db.records.metrics import METRICS


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_belongs_to_a_group(metric: str) -> None:
    ((name, _),) = grouped([metric])
    assert name != OTHER, f"say in app/views/runs/_merge_groups.py what {metric} is about"


def test_no_metric_is_in_two_groups() -> None:
    listed = [metric for metrics in GROUPS.values() for metric in metrics]
    assert len(listed) == len(set(listed))


def test_no_group_names_a_metric_that_does_not_exist() -> None:
    assert not {metric for metrics in GROUPS.values() for metric in metrics} - set(METRICS)


def test_groups_without_a_metric_are_left_out() -> None:
    assert grouped(["peak_bytes", "latency_s", "speedup"]) == [
        ("speed", ["speedup", "latency_s"]),
        ("memory", ["peak_bytes"]),
    ]


def test_an_unknown_metric_comes_last() -> None:
    assert grouped(["theirs", "also_theirs", "graphs"]) == [
        ("graphs", ["graphs"]),
        (OTHER, ["also_theirs", "theirs"]),
    ]
