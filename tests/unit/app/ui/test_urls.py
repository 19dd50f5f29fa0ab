"""The URL as the state of a page."""

from __future__ import annotations

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
    overview_url,
    parse_kernel_diff,
    parse_kernels,
    parse_overview,
    parse_run,
    parse_runs,
    parse_series,
    query_params,
    run_url,
    series_url,
    without,
)

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


def test_a_long_value_is_cut_in_the_report() -> None:
    _, (problem,) = parse_overview({"metric": "x" * 10_000})
    assert len(problem) < 400


def test_a_long_parameter_name_is_cut_in_the_report() -> None:
    _, (problem,) = parse_runs({"x" * 10_000: "1"})
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
