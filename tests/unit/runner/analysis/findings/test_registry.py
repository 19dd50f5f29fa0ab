"""Attribution of costs, the total, and the table of findings."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.db.records.findings import FINDING_CODES, TOTAL, Finding
from compile_hud.db.records.graphs.host_times import HOST_TIMES
from compile_hud.db.records.kernels import CACHE_LOOKUP, Kernel
from compile_hud.db.records.results import REFERENCE_FAMILY, CaseResult
from compile_hud.runner.analysis.findings.documents import document_json, run_findings
from compile_hud.runner.analysis.findings.registry import KINDS, table
from compile_hud.runner.analysis.findings.slower_than_eager import REMEDY
from tests.support import strategies
from tests.support.builders import make_case, make_document, make_measurement, make_run
from tests.support.records.gpu_results import eager_result, findings_by_code, gpu_kernel, gpu_result

_NAMES = (
    ("ampere_sgemm_128x64_tn", "gemm", "cublas", ("aten::bmm",)),
    ("triton_poi_fused_clone_0", "fused", "triton", ("aten::clone",)),
    ("triton_poi_fused__to_copy_1", "fused", "triton", ("aten::_to_copy",)),
    ("triton_poi_fused_add_2", "fused", "triton", ("aten::add",)),
    ("radixSort", "other", "aten", ("aten::sort",)),
    ("ncclDevKernel_AllReduce", "communication", "nccl", ()),
    ("elementwise_mul", "elementwise", "aten", ("aten::mul", "complex64 8x8")),
)


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    name, kind, library, operators = draw(st.sampled_from(_NAMES))
    return gpu_kernel(
        name,
        kind=kind,
        library=library,
        operators=operators[:1],
        shapes=operators[1] if len(operators) > 1 else "",
        count=float(draw(st.integers(1, 200))),
        mean_us=draw(st.floats(0.1, 500)),
        roofline=draw(st.none() | st.floats(0, 1)),
        launch={"occupancy": draw(st.integers(0, 100)), "spills": draw(st.integers(0, 100))},
    )


@given(
    listed=st.lists(kernels(), max_size=8),
    latency_us=st.floats(1, 1e5),
    host_share=st.none() | st.floats(0, 1),
    graphed_us=st.floats(1, 1e5),
)
def test_costs_never_add_up_to_more_than_the_latency(
    listed: list[Kernel], latency_us: float, host_share: float | None, graphed_us: float
) -> None:
    result = gpu_result(*listed, latency_us=latency_us, host_share=host_share)
    graphed = gpu_result(
        latency_us=graphed_us,
        case=make_case(device="cuda", dtype="bf16", mode="reduce-overhead"),
        id="graphed-1",
    )
    findings = findings_by_code(result, siblings=[graphed]).values()
    costs = [item.cost_s for item in findings if item.cost_s is not None and not item.is_total]
    assert all(cost_s > 0 for cost_s in costs)
    assert sum(costs) <= latency_us * 1e-6 * (1 + 1e-9)


@given(
    listed=st.lists(kernels(), max_size=8),
    latency_us=st.floats(1, 1e5),
    gap_us=st.floats(0, 1e5),
    guards_us=st.floats(0, 1e4),
    calls_us=st.lists(st.floats(0, 1e5), max_size=3),
)
def test_measured_costs_never_add_up_to_more_than_the_latency(
    listed: list[Kernel], latency_us: float, gap_us: float, guards_us: float, calls_us: list[float]
) -> None:
    calls = [
        {"operator": "aten::mul", "is_complex": True, "count": 1, "samples_s": [1e-6 * time_us]}
        for time_us in calls_us
    ]
    times = {"num_gaps": 1, "gaps_s": [1e-6 * gap_us], "gap_operators_s": [0.0]}
    result = gpu_result(
        *listed,
        gpu_kernel(CACHE_LOOKUP, kind="dispatch", library="other"),
        latency_us=latency_us,
        case=make_case(device="cpu", mode="default"),
        measurements=[
            make_measurement("graph_breaks", samples=(1.0,)),
            make_measurement("guard_s", samples=(1e-6 * guards_us,)),
        ],
        details={HOST_TIMES: {**times, "gap_guards_s": [1e-6 * guards_us], "fallbacks": calls}},
    )
    costs = [item.cost_s for item in findings_by_code(result).values() if item.cost_s is not None]
    assert all(cost_s > 0 for cost_s in costs)
    assert sum(costs) <= latency_us * 1e-6 * (1 + 1e-9)


def test_a_finding_without_a_cost_leaves_the_latency_to_the_others() -> None:
    result = gpu_result(
        gpu_kernel("multi_tensor_apply", library="aten", operators=("aten::_foreach_lerp_",)),
        latency_us=120,
        case=make_case(device="cpu", mode="default", phase="training"),
        measurements=[make_measurement("graph_breaks", samples=(1.0,))],
        details={HOST_TIMES: {"num_gaps": 1, "gaps_s": [60e-6], "gap_operators_s": [0.0]}},
    )
    findings = findings_by_code(result)
    assert findings["unfused-optimizer"].cost_s is None
    assert findings["graph-break"].cost_s == pytest.approx(60e-6)


def slower(latency_us: float, *listed: Kernel, interval: tuple[float, float]) -> dict[str, Finding]:
    measured = (
        make_measurement("eager_latency_s", samples=(800e-6,)),
        make_measurement("speedup", samples=(800 / latency_us,), interval=interval),
    )
    return findings_by_code(gpu_result(*listed, latency_us=latency_us, measurements=measured))


def test_a_slower_case_is_the_sum_of_the_others_and_a_rest() -> None:
    copy = gpu_kernel("triton_poi_fused_clone_0", operators=("aten::clone",), count=5)
    findings = slower(1000, copy, interval=(0.79, 0.81))
    assert list(findings) == [TOTAL, "layout-copies"]
    total = findings[TOTAL]
    assert total.cost_s == pytest.approx(200e-6)
    parts = {item.name: item.value for item in total.evidence if item.unit == "s"}
    assert parts == {"layout-copies": pytest.approx(125e-6), "rest": pytest.approx(75e-6)}
    assert "layout-copies 125 us" in total.text
    assert total.remedy == REMEDY


def test_a_slower_case_without_a_known_cause_names_none_below() -> None:
    findings = slower(1000, interval=(0.79, 0.81))
    assert list(findings) == [TOTAL]
    assert findings[TOTAL].remedy not in ("", REMEDY)


@pytest.mark.parametrize(
    ("latency_us", "interval"), [(1000, (0.7, 1.1)), (805, (0.99, 0.995)), (700, (1.1, 1.2))]
)
def test_a_case_that_is_not_surely_slower_has_no_total(
    latency_us: float, interval: tuple[float, float]
) -> None:
    assert TOTAL not in slower(latency_us, interval=interval)


def test_a_run_pairs_each_case_with_the_eager_result_of_its_model() -> None:
    fused = gpu_kernel("flash_fwd", kind="attention", library="flash-attention", count=3)
    eager = eager_result(fused)
    case = gpu_result(
        gpu_kernel("sgemm_b", kind="gemm", library="cublas", count=6),
        gpu_kernel("triton_per_fused__softmax_1", label="triton_per_fused__softmax", count=3),
    )
    document = make_document(
        make_run(environment={"compute_capability": "9.0"}), results=[eager, case]
    )
    codes = {key: [item.code for item in rows] for key, rows in run_findings(document).items()}
    assert codes["eager-1"] == []
    assert "attention-decomposed" in codes[case.id]


@given(strategies.results())
def test_any_stored_result_has_findings_that_json_can_hold(result: CaseResult) -> None:
    case = result.case
    eager = eager_result(gpu_kernel("flash_fwd", kind="attention", library="flash-attention"))
    eager = replace(
        eager, case=replace(case, mode="eager", variant="eager", backend="eager"), id="eager-2"
    )
    content = document_json(make_document(results=[eager, result]))
    rows = [item["findings"] for item in content["results"]]
    assert json.loads(json.dumps(rows)) == rows


def test_reference_cases_have_no_findings() -> None:
    case = make_case("ref_copy", family=REFERENCE_FAMILY, device="cuda", mode="eager")
    copy = gpu_kernel("copy", kind="copy", library="aten", operators=("aten::copy_",))
    assert findings_by_code(gpu_result(copy, case=case)) == {}


def test_each_finding_has_one_row_with_a_short_meaning() -> None:
    codes = [row.code for row in table()]
    assert len(set(codes)) == len(codes) == len(KINDS) + 1
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code) for code in codes)
    assert max(len(row.meaning.split()) for row in table()) <= 15


def test_settings_know_the_code_of_each_finding() -> None:
    assert sorted(row.code for row in table()) == list(FINDING_CODES)
