"""The cases of a run as a table."""

from __future__ import annotations

from dataclasses import replace

from compile_hud.app.data.page_records import RunPage
from compile_hud.app.ui.format import outcome_label
from compile_hud.app.views.runs.case_table import case_table
from compile_hud.db.records.results import Outcome, Verdict
from tests.support.builders import START, make_alert, make_case, make_run, make_run_ref
from tests.support.pages.table_cells import cells_of, links_in
from tests.support.records.page_results import result_summary, run_page


def rows_of(page: RunPage) -> list[dict[str, str]]:
    return cells_of(case_table(page))


def test_cases_are_listed_from_broken_to_fine() -> None:
    cases = {outcome: make_case(f"model-{outcome}") for outcome in Outcome}
    results = [result_summary(case, outcome=outcome) for outcome, case in cases.items()]
    texts = [row["outcome"] for row in rows_of(run_page(results))]
    bad = ["failed", "timeout", "out of memory", "inaccurate", "lost", "skipped"]
    assert texts[: len(bad)] == bad
    # The others have the order of the plan.
    assert texts[len(bad) :] == [
        outcome_label(outcome) for outcome in Outcome if outcome_label(outcome) not in bad
    ]


def test_only_dimensions_that_differ_have_a_column() -> None:
    results = [result_summary(make_case(dtype="fp32")), result_summary(make_case(dtype="bf16"))]
    rows = rows_of(run_page(results))
    assert list(rows[0])[:4] == ["model", "variant", "dtype", "outcome"]
    assert [row["dtype"] for row in rows] == ["fp32", "bf16"]


def test_a_regression_is_marked_only_in_its_first_bad_run() -> None:
    alert = make_alert(first_bad=make_run_ref(make_run("run-1")))
    here = run_page([result_summary()], alerts=[alert])
    later = run_page([result_summary()], run=make_run("run-2"), alerts=[alert])
    better = run_page([result_summary()], alerts=[make_alert(verdict=Verdict.IMPROVEMENT)])
    marks = [rows_of(page)[0].get("regression") for page in (here, later, better)]
    assert marks == ["latency +20.0 %", None, None]


def test_a_case_without_a_result_says_whether_one_will_come() -> None:
    going = run_page([], run=make_run())
    over = run_page([], run=make_run(finished_at=START))
    rows = [rows_of(page)[0] for page in (going, over)]
    assert [row["outcome"] for row in rows] == ["to do", "no result"]
    assert set(list(rows[0].values())[3:]) == {"-"}


def test_a_fallback_is_reported_where_there_is_one() -> None:
    result = result_summary(make_case(mode="max-autotune"), effective_mode="default")
    assert rows_of(run_page([result]))[0]["fell back to"] == "default"
    assert "fell back to" not in rows_of(run_page([result_summary()]))[0]


def test_numbers_have_one_unit_a_column_and_intervals_its_scale() -> None:
    values = {"latency_s": 0.012, "speedup": 1.5, "graph_breaks": 2.0, "peak_bytes": 3 * 2.0**20}
    row = rows_of(run_page([result_summary(values=values)]))[0]
    assert (row["latency (ms)"], row["speedup"], row["graph breaks"]) == ("12.0", "1.50x", "2")
    assert row["peak memory (MiB)"] == "3.00"
    assert {"latency, 95 % (ms)", "speedup, 95 %"} <= set(row)


def test_a_latency_has_one_clock_before_and_after_the_first_speedup() -> None:
    latencies = {"latency_s": 0.012, "latency_cpu_s": 0.011}
    eager = result_summary(make_case(mode="eager"), values=latencies)
    compiled = result_summary(values={**latencies, "eager_latency_cpu_s": 0.022, "speedup": 2.0})
    speedup = replace(compiled.measurements["speedup"], method="ratio of CPU time")
    compiled = replace(compiled, measurements={**compiled.measurements, "speedup": speedup})
    for results in ([eager], [eager, compiled]):
        rows = rows_of(run_page(results))
        assert [row["latency (CPU time) (ms)"] for row in rows] == ["11.0"] * len(results)
        assert "latency (ms)" not in rows[0]
    wall = rows_of(run_page([result_summary(values={"latency_s": 0.012})]))
    assert wall[0]["latency (ms)"] == "12.0"


def test_a_case_opens_and_its_history_is_a_click_away() -> None:
    failed = result_summary(make_case("vit"), outcome=Outcome.FAILED)
    table = case_table(run_page([failed, result_summary(values={"latency_s": 0.01})]))
    first, second = links_in(table, "model")
    assert first.startswith("run?run=run-1&case=vit%2F")
    assert second.startswith("run?run=run-1&case=bert%2F")
    nothing, history = links_in(table, "history")
    assert (nothing, history.startswith("series?case=bert%2F")) == ("", True)


def test_another_time_of_eager_alone_has_a_column_where_there_is_one() -> None:
    values = {"eager_latency_s": 0.005, "latency_s": 0.003}
    marked, plain = (result_summary(make_case(name), values=values) for name in ("gan", "vit"))
    page = run_page([marked, plain])
    assert "eager alone (ms)" not in rows_of(page)[0]
    page = replace(page, own_eager_s={marked.case.key: 0.00372})
    assert [row["eager alone (ms)"] for row in rows_of(page)] == ["3.72", "-"]
