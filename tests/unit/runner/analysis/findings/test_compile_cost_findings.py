"""Findings about caches, guards and memory of a compilation."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.findings import Finding
from compile_hud.db.records.results import CaseResult
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.records.gpu_results import US, findings_by_code, gpu_kernel, gpu_result

GIB = 1 << 30


def launch(state: str, *reasons: dict[str, Any], **counts: int) -> dict[str, Any]:
    return {"state": state, "cache": counts, "cache_reasons": list(reasons)}


def reason(event: str, *, is_permanent: bool) -> dict[str, Any]:
    return {
        "cache": "fxgraph",
        "event": event,
        "reason": f"the reason of the {event}",
        "is_permanent": is_permanent,
        "remedy": f"the remedy of the {event}",
    }


def compiled(*launches: dict[str, Any]) -> dict[str, Finding]:
    warm = make_measurement("compile_warm_s", samples=(2.5,))
    return findings_by_code(gpu_result(details={"compile": list(launches)}, measurements=[warm]))


def test_a_bypass_and_a_miss_have_reason_remedy_and_times(words: SnapshotAssertion) -> None:
    bypass = reason("bypass", is_permanent=True)
    findings = compiled(
        launch("cold", bypass, fxgraph_misses=3, fxgraph_bypasses=1),
        launch(
            "warm",
            bypass,
            reason("miss", is_permanent=False),
            fxgraph_hits=1,
            fxgraph_misses=2,
            fxgraph_bypasses=1,
        ),
    )
    assert {code: (item.text, item.remedy) for code, item in findings.items()} == words
    assert findings["cache-bypass"].cost_s is None
    assert [item.name for item in findings["cache-miss"].evidence] == ["compile", "compile_warm_s"]


def test_a_permanent_miss_is_one_of_each_start() -> None:
    findings = compiled(launch("warm", reason("miss", is_permanent=True), fxgraph_misses=1))
    assert "at each start" in findings["cache-miss"].text


def test_a_result_of_an_older_version_has_the_counts_alone() -> None:
    findings = compiled({"state": "warm", "cache": {"fxgraph_misses": 2}})
    assert findings["cache-miss"].text.endswith("no reason given")
    assert "TORCH_LOGS" in findings["cache-miss"].remedy


def test_caches_that_work_are_silent() -> None:
    assert compiled(launch("cold", fxgraph_misses=5), launch("warm", fxgraph_hits=5)) == {}


def guarded(guard_us: float, *, busy_us: float) -> CaseResult:
    return gpu_result(
        gpu_kernel("triton_mul", count=1.0, mean_us=busy_us),
        latency_us=1000.0,
        measurements=[
            make_measurement("guard_s", samples=(guard_us * US,)),
            make_measurement("guards", samples=(431.0,)),
        ],
    )


@pytest.mark.parametrize(
    ("busy_us", "cost_us"), [(400.0, 120.0), (930.0, 70.0), (1000.0, None), (990.0, None)]
)
def test_guards_cost_a_gpu_the_time_in_which_it_is_idle(
    busy_us: float, cost_us: float | None
) -> None:
    finding = findings_by_code(guarded(120.0, busy_us=busy_us)).get("guard-overhead")
    if cost_us is None:
        assert finding is None
    else:
        assert finding is not None
        assert finding.cost_s == pytest.approx(cost_us * US)
        assert "431 guard checks" in finding.text
        assert "120 us" in finding.text


def test_guards_cost_a_cpu_their_time_in_the_trace() -> None:
    lookup = gpu_kernel(
        "TorchDynamo Cache Lookup", kind="dispatch", library="other", count=2.0, mean_us=45.0
    )
    slow = gpu_result(
        lookup,
        case=make_case(device="cpu"),
        measurements=[make_measurement("guard_s", samples=(90 * US,))],
    )
    finding = findings_by_code(slow)["guard-overhead"]
    assert finding.cost_s == pytest.approx(90 * US)
    assert finding.evidence[0].name == lookup.name
    # The cost is the only time that a reader sees: the median of the profile is another number.
    assert " us" not in finding.text


def test_an_interrupted_look_up_costs_no_more_than_the_median() -> None:
    lookup = gpu_kernel(
        "TorchDynamo Cache Lookup", kind="dispatch", library="other", count=1.0, mean_us=800.0
    )
    interrupted = gpu_result(
        lookup,
        case=make_case(device="cpu"),
        measurements=[make_measurement("guard_s", samples=(60 * US, 60 * US, 2280 * US))],
    )
    finding = findings_by_code(interrupted)["guard-overhead"]
    assert finding.cost_s == pytest.approx(60 * US)


def test_a_few_microseconds_of_guards_are_silent() -> None:
    assert "guard-overhead" not in findings_by_code(guarded(12.0, busy_us=300.0))


def memory(kind: str, *, running: float, **peaks: float) -> dict[str, Finding]:
    names = {"host": "compile_peak_host_bytes", "compilers": "compile_peak_compilers_bytes"}
    measured = [
        make_measurement(names[name], samples=(value,))
        for name, value in peaks.items()
        if name in names
    ]
    cold = {"state": "cold", "memory_bytes": {"device peak": peaks.get("device")}}
    return findings_by_code(
        make_result(
            case=make_case(device=kind),
            measurements=[make_measurement("peak_bytes", samples=(running,)), *measured],
            details={"compile": [cold]},
        )
    )


def test_a_compile_that_needs_more_than_an_iteration_says_how_much(
    words: SnapshotAssertion,
) -> None:
    gpu = memory("cuda", running=3 * GIB, device=7.5 * GIB, host=9 * GIB)
    cpu = memory("cpu", running=0.5 * GIB, host=1.25 * GIB, compilers=6 * GIB)
    assert [item["compile-memory"].text for item in (gpu, cpu)] == words
    assert [item["compile-memory"].cost_s for item in (gpu, cpu)] == [None, None]


@pytest.mark.parametrize("peak", [3.9, 3.5, 1.0])
def test_a_compile_that_fits_where_the_model_does_is_silent(peak: float) -> None:
    assert memory("cuda", running=3.2 * GIB, device=peak * GIB) == {}
    assert memory("cpu", running=3.2 * GIB, host=peak * GIB) == {}
    assert memory("cpu", running=0.01 * GIB, host=0.5 * GIB) == {}
