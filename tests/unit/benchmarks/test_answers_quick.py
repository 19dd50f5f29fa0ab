"""Counting the answers about two quick runs."""

from __future__ import annotations

from benchmarks.answers.quick import answers


def row(metric: str, verdict: str, interval: list[float] | None) -> dict[str, object]:
    return {"case": "bert", "metric": metric, "verdict": verdict, "interval": interval}


def test_groups_have_their_decided_share_false_changes_and_coverage() -> None:
    rows = [
        row("speedup", "unchanged", [0.99, 1.01]),
        row("speedup", "inconclusive", [0.9, 1.2]),
        row("speedup", "regression", [1.04, 1.1]),
        row("speedup", "identical", None),
        row("compile_cold_s", "inconclusive", [0.9, 1.2]),
        row("peak_bytes", "regression", [1.1, 1.1]),
    ]
    counted = answers(rows)
    assert counted["speedup"]["num_comparisons"] == 4
    assert counted["speedup"]["decided_share"] == 3 / 4
    assert counted["speedup"]["num_false"] == 1
    assert counted["speedup"]["coverage"] == 2 / 3
    assert counted["compile time"]["decided_share"] == 0
    assert counted["latency"]["decided_share"] is None
