"""The URL as the state of a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.urls import (
    OVERVIEW_METRICS,
    KernelDiffState,
    KernelsState,
    OverviewState,
    RunPageState,
    SeriesState,
    end_in,
    moment_out,
    overview_url,
    parse_kernel_diff,
    parse_kernels,
    parse_model,
    parse_models,
    parse_modes,
    parse_overview,
    parse_run,
    parse_runs,
    parse_series,
    query_params,
    run_url,
    series_url,
    without,
)
from compile_hud.runner.cli.option_types import LastMoment

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def test_no_parameters_are_the_defaults() -> None:
    assert parse_overview({}) == (OverviewState(), ())


def test_an_empty_value_is_the_default() -> None:
    assert parse_overview({"phase": "", "metric": ""}) == (OverviewState(), ())


def test_what_pages_of_kernels_cannot_show_is_reported_and_ignored(
    words: SnapshotAssertion,
) -> None:
    state, problems = parse_kernels({"kind": "zzz", "library": "aten"})
    assert state == KernelsState(library="aten")
    assert problems[0] == words
    query = {"change": "lol", "row": "-99", "baseline_run": "a"}
    diff, problems = parse_kernel_diff(query, classes=("new", "vanished"))
    assert diff == KernelDiffState(baseline_run="a")
    assert "Allowed: new, vanished." in problems[0]
    assert problems[1] == words
    fine = {"change": "new", "row": "3"}
    assert parse_kernel_diff(fine, classes=("new",)) == (KernelDiffState(**fine), ())


def test_an_unknown_parameter_is_reported_and_ignored(words: SnapshotAssertion) -> None:
    state, problems = parse_overview({"metrc": "latency_s"})
    assert state == OverviewState()
    assert problems == words


@pytest.mark.parametrize("name", ["phase", "dtype", "metric"])
def test_a_value_that_cannot_be_is_reported_with_those_that_can(name: str) -> None:
    state, (problem,) = parse_overview({name: "nonsense", "model": "bert"})
    assert state == OverviewState(model="bert")
    assert f"{name} 'nonsense'" in problem
    assert "Allowed: " in problem


@pytest.mark.parametrize("parse", [parse_model, parse_models, parse_modes, parse_series])
def test_an_old_link_to_all_rows_of_a_table_is_no_problem(parse: Callable[..., Any]) -> None:
    state, problems = parse({"machine": "desk", "rows": "all"})
    assert (query_params(state), problems) == ({"machine": "desk"}, ())


@pytest.mark.parametrize(
    "text", ["2026-02-28", "2024-02-29", "9999-12-31", "2026-03-01T17:45", "0001-01-01T00:00"]
)
def test_an_end_is_that_of_the_command_line(text: str) -> None:
    assert end_in(text) == LastMoment().convert(text, None, None)


def test_an_end_on_a_date_includes_its_day() -> None:
    end = end_in("2026-02-28")
    assert end is not None
    assert moment_out(end) == "2026-02-28T23:59"
    assert end_in("2026-02-30") is None


def test_a_part_of_one_day_has_both_ends_on_it() -> None:
    day = {"since": "2026-02-28", "until": "2026-02-28"}
    state, problems = parse_series(day)
    assert (state, problems) == (SeriesState(**day), ())
    state, problems = parse_series({"since": "2026-02-28", "until": "2026-02-27"})
    assert (state, len(problems)) == (SeriesState(), 1)


def test_a_long_value_is_cut_in_the_report() -> None:
    _, (problem,) = parse_overview({"metric": "x" * 10_000})
    assert len(problem) < 400


def test_a_long_parameter_name_is_cut_in_the_report() -> None:
    _, (problem,) = parse_runs({"x" * 10_000: "1"}, states=())
    assert len(problem) < 400


@given(
    model=TEXTS,
    machine=TEXTS,
    toolchain=TEXTS,
    shape=TEXTS,
    phase=st.sampled_from(["", "inference", "training"]),
    metric=st.sampled_from(OVERVIEW_METRICS),
)
def test_an_overview_url_leads_back_to_its_state(
    model: str, machine: str, toolchain: str, shape: str, phase: str, metric: str
) -> None:
    state = OverviewState(
        model=model,
        machine=machine,
        toolchain=toolchain,
        shape=shape,
        phase=phase,
        metric=metric,
    )
    assert parse_overview(_params(overview_url(state))) == (state, ())


@given(case=TEXTS, metric=TEXTS.filter(bool), machine=TEXTS, toolchain=TEXTS, result=TEXTS)
def test_a_series_url_leads_back_to_its_state(
    case: str, metric: str, machine: str, toolchain: str, result: str
) -> None:
    url = series_url(case, metric=metric, machine=machine, toolchain=toolchain, result=result)
    state = SeriesState(
        case=case, metric=metric, machine=machine, toolchain=toolchain, result=result
    )
    if metric != "outcome":
        assert parse_series(_params(url)) == (state, ())


@given(run=TEXTS, case=TEXTS)
def test_a_run_url_leads_back_to_its_state(run: str, case: str) -> None:
    assert parse_run(_params(run_url(run, case_key=case))) == (
        RunPageState(run=run, case=case),
        (),
    )


def test_urls_are_relative_so_that_a_prefix_of_a_proxy_is_preserved() -> None:
    assert overview_url(OverviewState()) == "./"
    assert series_url("a/b") == "series?case=a%2Fb"
    assert run_url("r 1") == "run?run=r+1"


def test_an_alert_about_an_outcome_leads_to_the_default_metric() -> None:
    state, problems = parse_series({"case": "c", "metric": "outcome"})
    assert (state, problems) == (SeriesState(case="c"), ())


def test_a_filter_can_be_taken_back() -> None:
    state = OverviewState(model="bert", dtype="bf16")
    assert without(state, "model") == OverviewState(dtype="bf16")
    assert query_params(state) == {"model": "bert", "dtype": "bf16"}


def _params(url: str) -> dict[str, str]:
    parameters = parse_qs(urlsplit(url).query, keep_blank_values=True, errors="strict")
    return {name: values[-1] for name, values in parameters.items()}
