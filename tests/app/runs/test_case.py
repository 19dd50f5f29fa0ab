"""One case in full: everything that was measured, and why the rest was not."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.maintenance.retention import OldSamples, remove_samples
from compile_hud.db.records.results import Outcome, RunDocument
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import START, make_case, make_measurement, make_result, make_run
from tests.support.pages.page_elements import html_of, links_of, text_of, texts_of, texts_of_rows

CASE = make_case("bert", mode="default", phase="training")
DETAILS: dict[str, Any] = {
    "steps": [[{"name": "build", "start_s": 0.0, "end_s": 0.5}]] * 2,
    "compile": [
        {"state": "cold", "compile_s": 8.0, "phases_s": {"dynamo": 2.0, "backend": 5.0}},
        {
            "state": "warm",
            "compile_s": 2.0,
            "phases_s": {"dynamo": 1.5},
            "cache": {"fxgraph_hits": 1, "fxgraph_misses": 2},
            "cache_reasons": [
                {
                    "cache": "fxgraph",
                    "event": "miss",
                    "reason": "its key differs in <b>gm</b>",
                    "is_permanent": False,
                    "remedy": "keep it the same",
                }
            ],
        },
    ],
    "compile_trace": {"folder": "/state/traces/r1", "tlparse": "/state/traces/r1/index.html"},
    "compilations": [
        [
            {
                "compile_id": "0/1",
                "is_backward": True,
                "phases_s": {"aot": 0.25, "backend": 4.0},
                "function": "forward",
                "file": "/m/net.py",
                "line": 9,
                "reason": "n == <3>",
                "failure": "",
                "num_ops": 6,
                "num_guards": None,
            }
        ]
    ],
    "conditions": [{"load": [0.5, 0.7], "steal_share": 0.02}, None],
    "telemetry": [{"temperature_c": 61.0, "throttle_reasons": ["power"]}, None],
    "counters": {
        "missing": {"instructions": "the kernel forbids it", "cycles": "the kernel forbids it"}
    },
    "graph_breaks": [
        {"reason": "call to <b>print</b>", "file": "/m/net.py", "line": 12, "function": "forward"}
    ],
    "recompiles": [{"reason": "size of x", "file": None, "line": None, "function": None}],
    "accuracy": {
        "tolerance": {"min_cosine": 0.9999},
        "parts": {"output": {"cosine": 0.9999999, "rmse": 1e-7, "eager_rmse": None}},
    },
    "eager_nondeterminism": {"max_abs_difference": 3e-6, "rmse": None},
    "breakdown": {"step_s": 0.0125},
    "memory_peak": {
        "rows": [
            {"kind": "before", "operator": "parameters", "bytes": 3 * 2**20, "count": 1},
            {
                "kind": "operator",
                "operator": "aten::<mm>",
                "module": "layers.0",
                "line": "/m/net.py:9",
                "bytes": 2**20,
                "count": 2,
            },
        ]
    },
    "shapes": {
        "axis": "length",
        "own": 8,
        "clock": "thread CPU time",
        "rows": [
            {
                "value": value,
                "eager_s": [0.002, 0.003],
                "variant_s": [0.001, 0.001],
                "first_call_s": 1.5,
                "compile_s": compile_s,
                "num_recompiles": int(compile_s is not None),
                "recompiles": [],
                "has_given_up": False,
                "reason": "",
                "accuracy": {},
            }
            for value, compile_s in ((4, 1.5), (8, None))
        ],
    },
}


@pytest.fixture
def page_of_case(store: Store, open_page: OpenPage) -> Any:
    """Return a function that opens the page of the case."""
    run = make_run(plan=(CASE,))
    samples = (0.010, 0.011, 0.012, 0.010)
    result = make_result(
        "r1",
        run=run,
        case=CASE,
        measurements=[
            make_measurement(samples=samples, launches=(2, 2), warmups=(0.03, 0.02)),
            make_measurement("forward_s", samples=(0.004,)),
            make_measurement("backward_s", samples=(0.006,)),
            make_measurement("compile_cold_s", samples=(8.0,)),
            make_measurement("peak_bytes", samples=(5.0 * 2**20,)),
            make_measurement("fxgraph_warm_hits", samples=(1.0,)),
            make_measurement("break_even_calls", samples=(900.0,), interval=(400.0, 1900.0)),
        ],
        warnings=[RunWarning(code="drift", text="it drifts", hint="run it again")],
        details=DETAILS,
    )
    with store.write() as connection:
        put_documents(connection, [RunDocument(run=run, results=(result,))], at=START)
    return lambda **params: open_page("run", case=CASE.key, **params)


def test_warnings_come_before_the_numbers_with_what_to_do(page_of_case: Any) -> None:
    page = page_of_case()
    assert texts_of_rows(page, "warnings") == [["drift", "it drifts", "run it again"]]
    html = html_of(page)
    assert html.index('aria-label="warnings"') < html.index('aria-label="measurements"')


def test_measurements_are_in_groups_with_interval_and_number_of_samples(page_of_case: Any) -> None:
    rows = texts_of_rows(page_of_case(), "measurements")
    assert [row[:2] for row in rows] == [
        ["speed", "latency"],
        ["compilation", "cold compile"],
        ["", "break-even, cold"],
        ["memory", "peak memory"],
        ["compile caches", "fxgraph warm hits"],
        ["training step", "forward"],
        ["", "backward"],
    ]
    assert rows[0][2:5] == ["10.5 ms", "[10.0, 12.0]", "4"]
    assert rows[1][2:5] == ["8.00 s", "-", "1"]
    assert rows[2][2:5] == ["900 calls", "[400, 1900]", "1"]


def test_missing_counters_have_a_reason(page_of_case: Any, words: SnapshotAssertion) -> None:
    rows = texts_of_rows(page_of_case(), "what is missing")
    assert rows == words


def test_memory_at_the_peak_has_its_holders(page_of_case: Any, words: SnapshotAssertion) -> None:
    page = page_of_case(tab="memory")
    assert texts_of_rows(page, "memory at the peak") == words
    assert [text for text in texts_of(page, "caption") if "MiB" in text] == words


def test_results_without_holders_of_memory_say_so(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    run = make_run(plan=(CASE,))
    result = make_result(
        "r1", run=run, case=CASE, measurements=[make_measurement("peak_bytes", samples=(8.0,))]
    )
    with store.write() as connection:
        put_documents(connection, [RunDocument(run=run, results=(result,))], at=START)
    page = open_page("run", case=CASE.key, tab="memory")
    assert texts_of(page, "caption") == words
    damaged = make_result(
        "r2", run=make_run("run-2", plan=(CASE,)), case=CASE, details={"memory_peak": {"rows": 3}}
    )
    with store.write() as connection:
        document = RunDocument(run=make_run("run-2", plan=(CASE,)), results=(damaged,))
        put_documents(connection, [document], at=START)
    page = open_page("run", run="run-2", case=CASE.key, tab="memory")
    assert texts_of(page, "notice") == words


def test_places_in_the_code_have_file_and_line(page_of_case: Any) -> None:
    page = page_of_case(tab="compile")
    text = text_of(page)
    assert "Graph breaks: 1" in text
    assert texts_of_rows(page, "graph breaks") == [
        ["call to <b>print</b>", "/m/net.py:12 in forward"]
    ]
    assert texts_of_rows(page, "recompiles") == [["size of x", "not known"]]


def test_each_compilation_has_its_phases(page_of_case: Any, words: SnapshotAssertion) -> None:
    assert texts_of_rows(page_of_case(tab="compile"), "compilations") == words


def test_a_stored_log_of_the_compiler_has_its_command(page_of_case: Any) -> None:
    html = html_of(page_of_case(tab="compile"))
    assert "/state/traces/r1</span>" in html
    assert "/state/traces/r1/index.html" in html


def test_each_launch_has_the_look_ups_of_its_caches(
    page_of_case: Any, words: SnapshotAssertion
) -> None:
    page = page_of_case(tab="compile")
    assert texts_of_rows(page, "compile caches") == words
    series = [link for link in links_of(page) if "fxgraph_warm_hits" in link]
    assert len(series) == 1


def test_compile_time_and_training_step_are_bars(page_of_case: Any) -> None:
    page = page_of_case(tab="compile")
    rows = texts_of_rows(page, "measurements")
    assert [row[1] for row in rows] == ["cold compile", "break-even, cold"]
    text = text_of(page)
    assert "cold (launch 1)" in text
    assert "warm (launch 2)" in text
    assert "training step" in text_of(page_of_case())


def test_accuracy_has_its_distances_and_what_was_allowed(
    page_of_case: Any, words: SnapshotAssertion
) -> None:
    page = page_of_case(tab="accuracy")
    assert texts_of_rows(page, "accuracy") == [["output", "0.9999999", "1.00e-07", "-"]]
    text = text_of(page)
    assert "min cosine 0.9999" in text
    assert texts_of(page, "facts") == words


def test_other_shapes_have_a_row_each_and_a_chart(page_of_case: Any) -> None:
    page = page_of_case()
    rows = texts_of_rows(page, "other shapes")
    assert [(row[0], row[5]) for row in rows] == [("4", "1: 1.50 s"), ("8 own shape", "-")]
    assert "Other shapes" in text_of(page)


def test_each_launch_has_its_conditions(page_of_case: Any) -> None:
    page = page_of_case()
    assert texts_of_rows(page, "conditions") == [
        ["load", "0.500, 0.700", "-"],
        ["steal (%)", "2.00", "-"],
    ]
    assert [row[1] for row in texts_of_rows(page, "telemetry")] == ["61.0", "power"]
    assert texts_of_rows(page, "steps of a launch") == [["build (ms)", "500", "500"]]


def test_samples_are_drawn_when_they_are_requested(page_of_case: Any) -> None:
    page = page_of_case()
    links = [link for link in links_of(page) if "samples=latency_s" in link]
    assert links
    assert "warm-up, not counted" not in text_of(page)
    drawn = page_of_case(samples="latency_s")
    assert "Samples: latency" in text_of(drawn)
    assert "warm-up, not counted" in text_of(drawn)


def test_samples_that_a_rule_removed_are_reported(
    store: Store, page_of_case: Any, words: SnapshotAssertion
) -> None:
    remove_samples(store, OldSamples(run_ids=("run-1",)))
    page = page_of_case(samples="latency_s")
    assert texts_of(page, "notice", "empty") == words
    assert "warm-up, not counted" not in text_of(page)


def test_samples_of_what_was_not_measured_are_not(
    page_of_case: Any, words: SnapshotAssertion
) -> None:
    assert texts_of(page_of_case(samples="peak_bytes"), "notice", "empty") == words


def test_a_case_with_nothing_but_an_outcome_has_no_empty_parts(
    store: Store, open_page: OpenPage
) -> None:
    run = make_run(plan=(CASE,))
    failed = make_result("r1", run=run, case=CASE, outcome=Outcome.FAILED, reason="no")
    with store.write() as connection:
        put_documents(connection, [RunDocument(run=run, results=(failed,))], at=START)
    html = html_of(open_page("run", case=CASE.key))
    for label in ("warnings", "measurements", "accuracy", "conditions", "what is missing"):
        assert f'aria-label="{label}"' not in html
    assert "hud-stack" not in html.partition("</style>")[2]


def test_the_log_has_a_tab(page_of_case: Any, words: SnapshotAssertion) -> None:
    page = page_of_case(tab="log")
    assert texts_of(page, "empty") == words
    assert not texts_of_rows(page, "measurements")


@pytest.mark.parametrize("tab", ["compile", "accuracy", "log"])
def test_a_part_without_data_has_a_reason(
    store: Store, open_page: OpenPage, tab: str, words: SnapshotAssertion
) -> None:
    eager = make_case("bert", mode="eager", phase="training")
    run = make_run(plan=(CASE, eager))
    results = (
        make_result("r1", run=run, case=CASE, outcome=Outcome.FAILED, reason="no"),
        make_result("r2", run=run, case=eager, measurements=[make_measurement()]),
    )
    with store.write() as connection:
        put_documents(connection, [RunDocument(run=run, results=results)], at=START)
    for case in (CASE, eager):
        page = open_page("run", case=case.key, tab=tab)
        assert not page.exception
        assert texts_of(page, "empty") == words


def test_an_unknown_part_is_the_summary(page_of_case: Any) -> None:
    page = page_of_case(tab="elsewhere")
    assert texts_of_rows(page, "measurements")
    assert any("elsewhere" in text for text in texts_of(page, "notice"))
