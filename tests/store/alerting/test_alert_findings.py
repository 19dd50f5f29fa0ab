"""New findings behind alerts, and the results of one model that they are derived from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.results import load_profiled_document, load_variants
from compile_hud.db.records.alerts import OUTCOME, Alert
from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import Case, RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.alerting.alert_findings import alert_findings
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_run,
    make_run_ref,
)
from tests.support.records.gpu_results import gpu_kernel, gpu_result
from tests.support.records.kernel_codes import template

CASE = make_case("bert", device="cuda", dtype="bf16")
EAGER = make_case("bert", device="cuda", dtype="bf16", mode="eager")
CAST = gpu_kernel("triton_poi_fused__to_copy_1", operators=("aten::_to_copy",))
WORK = gpu_kernel("triton_poi_fused_gelu_0", count=10, mean_us=70)


def save(store: Store, *documents: RunDocument) -> None:
    with store.write() as connection:
        put_documents(connection, documents, at=START)


def run_with(name: str, *cases: Case, is_cast: bool, days: int = 0) -> RunDocument:
    run = make_run(name, plan=cases, started_at=START + timedelta(days=days))
    kernels = (WORK, CAST) if is_cast else (WORK,)
    results = tuple(
        gpu_result(*kernels, case=case, id=f"{name}-{index}", run_id=name)
        for index, case in enumerate(cases)
    )
    return RunDocument(run=run, results=results)


def test_a_finding_of_the_first_bad_run_alone_is_new(store: Store) -> None:
    good, bad = run_with("good", CASE, is_cast=False), run_with("bad", CASE, is_cast=True, days=1)
    save(store, good, bad)
    refs = {"last_good": make_run_ref(good.run), "first_bad": make_run_ref(bad.run)}
    alerts = [
        make_alert("slower", case=CASE, **refs),
        make_alert("faster", case=CASE, last_good=refs["first_bad"], first_bad=refs["last_good"]),
        make_alert("failed", case=CASE, metric=OUTCOME, **refs),
        make_alert("new", case=CASE, first_bad=refs["first_bad"], last_good=None),
    ]
    rows = alert_findings(alerts, store=store)
    assert [item["code"] for item in rows["slower"]] == ["dtype-conversions"]
    assert [rows[name] for name in ("faster", "failed", "new")] == [[], [], []]


def test_the_findings_of_many_alerts_are_read_in_as_few_statements_as_those_of_one(
    store: Store,
) -> None:
    models = [make_case(name, device="cuda", dtype="bf16") for name in ("bert", "gpt", "vit")]
    runs = [
        run_with(f"run-{index}", *models, is_cast=index % 2 == 1, days=index) for index in range(4)
    ]
    save(store, *runs)
    alerts = [
        make_alert(
            f"{case.model}-{good}",
            case=case,
            last_good=make_run_ref(runs[good].run),
            first_bad=make_run_ref(runs[good + 1].run),
        )
        for case in models
        for good in (0, 2)
    ]
    statements: list[str] = []

    def look(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    def num_statements(some: Sequence[Alert]) -> int:
        statements.clear()
        rows = alert_findings(some, store=store)
        assert all([item["code"] for item in rows[one.id]] == ["dtype-conversions"] for one in some)
        return len(statements)

    # A process reads a plan once.
    alert_findings(alerts, store=store)
    event.listen(Engine, "before_cursor_execute", look)
    try:
        assert num_statements(alerts) == num_statements(alerts[:1]) > 0
    finally:
        event.remove(Engine, "before_cursor_execute", look)


def test_an_alert_of_a_pruned_run_has_no_findings(store: Store) -> None:
    good, bad = run_with("good", CASE, is_cast=False), run_with("bad", CASE, is_cast=True, days=1)
    save(store, bad)
    refs = {"last_good": make_run_ref(good.run), "first_bad": make_run_ref(bad.run)}
    assert alert_findings([make_alert("pruned", case=CASE, **refs)], store=store) == {"pruned": []}
    assert load_variants(store, []) == {}


def test_another_choice_of_the_autotuner_is_seen_in_its_code(store: Store) -> None:
    documents = []
    for days, (block_m, mean_us) in enumerate([(64, 20), (128, 33)]):
        source = KernelSource(hash=f"{block_m:064x}", language="triton", text=template(block_m))
        kernel = gpu_kernel(
            "triton_tem_fused_addmm_0",
            kind="gemm",
            mean_us=mean_us,
            operators=("aten::addmm",),
            source_hash=source.hash,
        )
        run = make_run(f"tuned-{days}", plan=(CASE,), started_at=START + timedelta(days=days))
        result = gpu_result(kernel, case=CASE, id=f"tuned-{days}-0", run_id=run.id)
        documents.append(RunDocument(run=run, results=(replace(result, sources=(source,)),)))
    save(store, *documents)
    good, bad = (make_run_ref(document.run) for document in documents)
    alert = make_alert("tuned", case=CASE, last_good=good, first_bad=bad)
    (finding,) = alert_findings([alert], store=store)["tuned"]
    assert finding["code"] == "autotune-flip"


def test_the_results_of_a_model_are_all_its_variants_with_kernels(store: Store) -> None:
    others = (
        make_case("bert", device="cuda", dtype="fp32"),
        make_case("bert", device="cpu", dtype="bf16"),
        make_case("bert_2", device="cuda", dtype="bf16"),
        make_case("bert", device="cuda", dtype="bf16", phase="training"),
    )
    save(store, run_with("run-1", EAGER, CASE, *others, is_cast=True))
    document = load_variants(store, [("run-1", CASE.key)])["run-1"]
    assert [result.case for result in document.results] == [EAGER, CASE]
    assert [len(result.kernels) for result in document.results] == [2, 2]
    assert document.run.plan[0] == EAGER
    latency = document.results[0].measurement("latency_s")
    assert latency is not None
    assert latency.samples == (latency.median,)
    assert len(load_profiled_document(store, "run-1").results) == 6


def test_a_percent_sign_in_a_name_is_no_wildcard(store: Store) -> None:
    cases = [make_case(name, device="cuda", dtype="bf16") for name in ("a%b", "aXb", "a_b")]
    save(store, run_with("run-1", *cases, is_cast=False))
    for case in cases:
        (result,) = load_variants(store, [("run-1", case.key)])["run-1"].results
        assert result.case == case
