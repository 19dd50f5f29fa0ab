"""The pure parts of benchmarks/precision: what is made of estimates and of trials."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from benchmarks.precision.__main__ import pyperf_options, read_pyperf, turns
from benchmarks.precision.agreement import (
    OURS,
    over_models,
    shared_drift,
    summarise,
    value_of,
    variation,
)
from benchmarks.precision.ours import SPEED_PROBE_S, numbers
from benchmarks.precision.rates import summarise as summarise_trials
from benchmarks.precision.rates import wilson_interval
from benchmarks.precision.trials import KINDS, plan
from tests.support.builders import make_measurement, make_result
from tests.support.errors import value_error_of


def _estimate(tool: str, eager_s: float, compiled_s: float, **more: Any) -> dict[str, Any]:
    return {
        "tool": tool,
        "model": "bert",
        "eager_s": eager_s,
        "compiled_s": compiled_s,
        **more,
    }


def _trial(planted: float, verdict: str, *, changes: int = 0) -> dict[str, Any]:
    return {
        "planted": planted,
        "verdict": verdict,
        "changes": [{}] * changes,
        "seconds": 9.0,
        "num_launches": 12,
    }


def test_variation_is_the_sd_over_the_mean_with_its_interval() -> None:
    estimate = variation([0.9, 1.0, 1.1])
    assert estimate["cv"] == pytest.approx(0.1)
    assert estimate["cv_interval"][0] < 0.1 < estimate["cv_interval"][1]
    assert (estimate["median"], estimate["num_estimates"]) == (1.0, 3)


def test_variation_of_one_value_is_refused(words: SnapshotAssertion) -> None:
    assert str(value_error_of(variation, [1.0])) == words


def test_speedup_of_a_peer_is_the_ratio_of_its_latencies_and_ours_is_its_own() -> None:
    assert value_of(_estimate("plain loop", 3.0, 2.0), "speedup") == 1.5
    assert value_of(_estimate(OURS, 3.0, 2.0, speedup=1.6), "speedup") == 1.6


def test_our_result_is_compared_with_the_best_peer_of_each_quantity() -> None:
    estimates = [
        *(_estimate("plain loop", eager_s, 1.0 * eager_s) for eager_s in (0.8, 1.0, 1.2)),
        *(_estimate("pyperf", eager_s, 2.0) for eager_s in (0.9, 1.0, 1.1)),
        *(_estimate("interleaved loop", eager_s, 2.0) for eager_s in (0.96, 1.0, 1.04)),
        *(_estimate(OURS, eager_s, 1.0, speedup=1.0) for eager_s in (0.95, 1.0, 1.05)),
    ]
    row = summarise(estimates)["eager_s"]
    assert row["models"]["bert"]["best_peer"] == "pyperf"
    assert row["models"]["bert"]["ours_over_best"] == pytest.approx(0.5)
    assert row["models"]["bert"]["is_reached"]
    assert row["models"]["bert"]["ours_over_interleaved"] == pytest.approx(1.25)
    assert row["num_reached"] == row["num_models"] == 1
    assert row["geometric_mean_of_ours_over_best"] == pytest.approx(0.5)


def test_a_tool_with_one_estimate_is_left_out_and_no_peer_gives_no_ratio() -> None:
    estimates = [_estimate("pyperf", 1.0, 1.0)]
    estimates += [_estimate(OURS, eager_s, 1.0, speedup=1.0) for eager_s in (1.0, 1.1)]
    row = summarise(estimates)["eager_s"]
    assert set(row["models"]["bert"]) == {"tools", "drift"}
    assert "num_models" not in row


def test_nothing_measured_gives_an_empty_summary() -> None:
    assert summarise([])["speedup"] == {"models": {}, "over_models": {"cv": {}}}


def test_our_numbers_are_levels_and_next_to_them_the_shown_medians() -> None:
    times = {"eager_latency_cpu_s": 2.0, "eager_latency_s": 3.0, "latency_s": 1.5}
    slow_and_fast = [4 * SPEED_PROBE_S] * 4 + [2 * SPEED_PROBE_S] * 4
    result = make_result(
        measurements=[
            make_measurement("latency_cpu_s", samples=[8.0] * 4 + [4.0] * 4, launches=(4, 4)),
            make_measurement("pace_s", samples=slow_and_fast, launches=(4, 4)),
            make_measurement("speedup", samples=[1.2] * 8, launches=(4, 4)),
            *(
                make_measurement(metric, samples=[value] * 8, launches=(4, 4))
                for metric, value in times.items()
            ),
        ]
    )
    values = numbers(result)
    assert values["compiled_s"] == pytest.approx(2.0)
    assert values["launches"]["compiled_s"] == pytest.approx([2.0, 2.0])
    assert values["shown"]["compiled_s"] == 6.0
    assert values["launch_medians"]["latency_cpu_s"] == [8.0, 4.0]
    assert values["launch_medians"]["pace_s"] == [4 * SPEED_PROBE_S, 2 * SPEED_PROBE_S]
    assert values["launches"]["eager_s"] == pytest.approx([0.5, 1.0])
    assert values["speedup"] == 1.2


def test_each_tool_goes_first_in_turn() -> None:
    assert [turns("abc", number=number)[0] for number in range(4)] == list("abca")
    assert turns("abc", number=1) == ["b", "c", "a"]


def test_pyperf_gets_as_many_processes_as_fit_and_spends_the_rest_on_values() -> None:
    prepared = {"process_s": 4.0, "compile_s": 2.0, "eager_s": 0.010, "compiled_s": 0.005}
    assert pyperf_options(prepared, seconds=20.0) == (
        *("--loops-of", "50,100", "--processes", "2"),
        *("--values", "3", "--warmups", "1"),
    )


def test_pyperf_gets_one_process_and_one_call_however_little_time_there_is() -> None:
    prepared = {"process_s": 9.0, "compile_s": 2.0, "eager_s": 1.0, "compiled_s": 1.0}
    assert pyperf_options(prepared, seconds=5.0)[1:4] == ("1,1", "--processes", "1")


@pytest.mark.parametrize(("values", "median"), [([3.0, 1.0, 2.0], 2.0), ([1.0, 2.0], 1.5)])
def test_a_document_of_pyperf_gives_medians_over_all_its_processes(
    values: list[float], median: float
) -> None:
    runs = [{"values": [value]} for value in values]
    document = {
        "metadata": {"name": "eager"},
        "benchmarks": [
            {"runs": [*runs, {"warmups": [[1, 9.0]]}]},
            {"runs": runs, "metadata": {"name": "compiled"}},
        ],
    }
    assert read_pyperf(document) == {"eager_s": median, "compiled_s": median}


@pytest.mark.parametrize(
    ("num_hits", "low", "high"), [(0, 0.0, 0.0602), (57, 0.8630, 0.9829), (60, 0.9398, 1.0)]
)
def test_wilson_interval_of_known_shares(num_hits: int, low: float, high: float) -> None:
    interval = wilson_interval(num_hits, 60)
    assert interval[0] == pytest.approx(low, abs=1e-4)
    assert interval[1] == pytest.approx(high, abs=1e-4)


def test_a_share_of_no_trials_is_refused(words: SnapshotAssertion) -> None:
    assert str(value_error_of(wilson_interval, 0, 0)) == words


def test_trials_are_counted_by_what_was_planted() -> None:
    trials = [
        _trial(1.0, "unchanged"),
        _trial(1.0, "inconclusive"),
        _trial(1.0, "unchanged", changes=1),
        _trial(1.05, "regression", changes=1),
        _trial(1.05, "improvement", changes=1),
    ]
    rates = summarise_trials(trials)
    assert rates["same_code"]["num_trials"] == 3
    assert rates["same_code"]["num_false_verdicts"] == 1
    assert rates["same_code"]["undecided"] == 1
    assert rates["planted_5_percent"]["num_found"] == 1
    assert rates["planted_5_percent"]["share"] == 0.5


def test_equal_and_planted_trials_alternate_over_all_subjects() -> None:
    trials = list(plan(["eager"], num_same=2, num_planted=3))
    assert [factor for _, factor in trials] == [1.0, 1.05, 1.0, 1.05, 1.05]
    assert [kind for (kind, _), _ in trials][::2] == list(KINDS[:3])


def test_the_best_peer_is_the_best_over_all_models() -> None:
    def row(**shares: float) -> dict[str, Any]:
        return {"tools": {name.replace("_", " "): {"cv": cv} for name, cv in shares.items()}}

    models = {
        "a": row(compile_hud=0.01, pyperf=0.01, plain_loop=0.04, interleaved_loop=0.001),
        "b": row(compile_hud=0.01, pyperf=0.16, plain_loop=0.04, interleaved_loop=0.001),
    }
    best = over_models(models)
    assert best["cv"]["pyperf"] == pytest.approx(0.04)
    assert best["best_peer"] in ("plain loop", "pyperf")
    assert best["ours_over_best"] == pytest.approx(0.25)
    assert best["is_reached"]
    del models["b"]["tools"]["compile hud"]
    assert "best_peer" not in over_models(models)
    assert over_models({}) == {"cv": {}}


def test_what_moves_every_tool_alike_is_drift_and_what_moves_one_is_not() -> None:
    def estimates(*factors: float) -> list[dict[str, Any]]:
        return [
            {"tool": tool, "model": "m", "eager_s": level * factor}
            for factor in factors
            for tool, level in (("a", 1.0), ("b", 2.0), ("c", 3.0))
        ]

    assert shared_drift(estimates(0.9, 1.1), "eager_s") == pytest.approx(0.14142)
    alone = estimates(1.0, 1.0)
    alone[0]["eager_s"] = 1.4
    assert shared_drift(alone, "eager_s") == 0.0
    assert shared_drift(estimates(1.0), "eager_s") is None
    assert shared_drift([], "eager_s") is None
