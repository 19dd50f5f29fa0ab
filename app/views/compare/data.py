"""Read the two runs of the compare page, cached as in app/data/store.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from compile_hud.app.components.matrix.result_matrix import variants_in_order
from compile_hud.app.data.cache import cached_read, computed_once
from compile_hud.app.data.latest_results import machine_move
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.runs import find_each, load_newest_runs, results_stamp
from compile_hud.app.data.store import StoreVersion, open_store
from compile_hud.app.ui.urls import OVERVIEW_METRICS, CompareState, RevisionsState
from compile_hud.app.views.compare.records import (
    ComparedRow,
    ComparePage,
    Level,
    LevelPair,
    Mean,
    RevisionChoice,
)
from compile_hud.app.views.compare.tables import revision_label, worst_first
from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.model_sources import load_code_diffs
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_run
from compile_hud.db.queries.series import load_recent_histories
from compile_hud.db.records.results import Case, CaseResult, Outcome, Run, RunDocument, RunState
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.store import Store
from compile_hud.runner.analysis.comparison.environment_diff import environment_diff
from compile_hud.runner.analysis.comparison.noise_model import HISTORY_RUNS, NOISE_METRICS
from compile_hud.runner.analysis.comparison.resolution import (
    noise_text,
    resolution_sentences,
    resolutions,
)
from compile_hud.runner.analysis.comparison.run_selection import (
    baseline_run,
    mean_ratios,
    of_variant,
    previous_run,
    revision_before,
    revisions_of,
    run_at_revision,
)
from compile_hud.runner.analysis.comparison.runs import (
    DEFAULT_FAIL_ABOVE,
    CaseComparison,
    check_comparable,
    compare_results,
    history_of,
)
from compile_hud.runner.analysis.errors import NotComparableError
from compile_hud.runner.analysis.judging.machine_state import compare_machine

# Two cases are alike if they share these fields, whatever device measures them.
_LIKE = ("model", "phase", "shape", "dtype", "variant")


class _Sides(NamedTuple):
    """The results of both runs that are compared, by the keys of their cases."""

    baseline: Mapping[str, CaseResult]
    candidate: Mapping[str, CaseResult]


def load_compare(state: CompareState) -> Loaded[ComparePage]:
    """Return the comparison of the two runs that `state` names, with all its rows.

    Raises NotFoundError when there is no such run, or none before the candidate.
    """
    return _compare_page(
        state.baseline,
        state.candidate,
        state.baseline_variant or state.candidate_variant,
        state.candidate_variant or state.baseline_variant,
    )


def choose_revisions(state: RevisionsState, summaries: Sequence[RunSummary]) -> RevisionChoice:
    """Return the revisions that `state` selects of the newest runs, each with its newest run.

    Runs without results are left out, and those in progress unless there are no others.
    """
    measured = [item.run for item in summaries if item.num_by_outcome]
    runs = [run for run in measured if run.state is not RunState.RUNNING] or measured
    machine = state.machine or (runs[0].machine if runs else "")
    here = [run for run in runs if run.machine == machine]
    toolchains = tuple(dict.fromkeys(run.toolchain for run in here))
    here = [run for run in here if state.toolchain in ("", run.toolchain)]
    candidate = state.candidate or (here[0].revision if here else "")
    after = run_at_revision(candidate, here)
    baseline = state.baseline or (
        "" if after is None else revision_before(after, name=candidate, runs=here)
    )
    before = (
        run_at_revision(baseline, here)
        if after is None
        else baseline_run(baseline, candidate=after, runs=here)
    )
    return RevisionChoice(
        machine=machine,
        machines=tuple(dict.fromkeys(run.machine for run in runs)),
        toolchains=toolchains,
        labels={
            item.name: revision_label(
                item.name, models=item.models, newest=item.runs[0], num_runs=len(item.runs)
            )
            for item in revisions_of(here)
        },
        baseline=baseline,
        candidate=candidate,
        baseline_run=before,
        candidate_run=after,
    )


@cached_read
def _compare_page(
    at: StoreVersion,
    baseline: str,
    candidate: str,
    baseline_variant: str,
    candidate_variant: str,
) -> ComparePage:
    store = at.store
    summaries = {item.run.id: item for item in load_newest_runs.read_at(at)}
    runs = [item.run for item in summaries.values()]
    named = find_each(
        [name for name in (baseline, candidate) if name],
        find=lambda name: _find(store, name, runs),
        noun="run or revision",
    )
    after = named[candidate] if candidate else _newest_ended(summaries.values())
    before = named[baseline] if baseline else _before(after, runs)
    # The stored data of a run change only when a result of it is added.
    stamps = tuple(results_stamp(summaries.get(run.id)) for run in (before, after))
    variants = (baseline_variant, candidate_variant)
    page: ComparePage = computed_once(_compared)(at.url, (before.id, after.id), stamps, variants)
    return page


def _find(store: Store, name: str, runs: Sequence[Run]) -> Run:
    try:
        return load_run(store, name)
    except NotFoundError as error:
        match = run_at_revision(name, runs)
        if match is None:
            raise NotFoundError(f"{error}. No run has a revision of that name either") from error
        return match


def _newest_ended(summaries: Iterable[RunSummary]) -> Run:
    runs = [item.run for item in summaries if item.num_by_outcome]
    ended = [run for run in runs if run.state is not RunState.RUNNING]
    if not runs:
        raise NotFoundError("no run in this store has a result")
    return (ended or runs)[0]


def _before(run: Run, runs: Sequence[Run]) -> Run:
    previous = previous_run(run, runs)
    if previous is None:
        raise NotFoundError(
            f"run {run.id} is the first of suite {run.suite} on {run.machine}: there is none"
            " before it"
        )
    return previous


def _compared(
    url: str,
    run_ids: tuple[str, str],
    stamps: tuple[str, str],  # noqa: ARG001
    variants: tuple[str, str],
) -> ComparePage:
    store = open_store(url)
    before, after = (load_document(store, run_id) for run_id in run_ids)
    results = (*before.results, *after.results)
    page = ComparePage(
        baseline=before.run,
        candidate=after.run,
        environment=environment_diff(before.run, after=after.run),
        code_changes=load_code_diffs(
            lambda: store,
            before.run,
            candidate=after.run,
            models={item.case.model for item in results if not item.case.is_reference},
        ),
        variants=tuple(
            variants_in_order(item.case for item in results if not item.case.is_reference)
        ),
    )
    try:
        check_comparable(before.run, candidate=after.run)
    except NotComparableError as error:
        levels = _level_pairs(before, after, variants=variants)
        return dataclasses.replace(page, refusal=str(error), levels=levels)
    left, right = _chosen(before, variants[0]), _chosen(after, variants[1])
    if variants[0] != variants[1]:
        left = of_variant(left, variants[0], case_of=variants[1])
    sides_of_runs = (
        dataclasses.replace(before, results=tuple(left)),
        dataclasses.replace(after, results=tuple(right)),
    )
    histories = load_recent_histories(
        store, after.run, metrics=NOISE_METRICS, num_runs=HISTORY_RUNS
    )
    rows = compare_results(*sides_of_runs, histories=histories)
    moves = (
        ()
        if before.run.id == after.run.id
        else compare_machine(
            left, candidate=right, history=history_of(*sides_of_runs, histories=histories)
        )
    )
    sides = _Sides(*({item.case.key: item for item in side} for side in (left, right)))
    return dataclasses.replace(
        page,
        rows=tuple(
            worst_first(_row(row, sides, baseline_variant=variants[0]) for row in rows),
        ),
        means=tuple(
            Mean(**{item.name: getattr(mean, item.name) for item in dataclasses.fields(Mean)})
            for mean in mean_ratios(rows, metrics=OVERVIEW_METRICS)
        ),
        machine=tuple(map(machine_move, moves)),
        noise=noise_text(rows),
        resolution=resolution_sentences(resolutions(rows, fail_above=DEFAULT_FAIL_ABOVE)),
    )


def _chosen(document: RunDocument, variant: str) -> list[CaseResult]:
    """Return the results of `variant`, of all if it is empty, and of the reference cases."""
    return [
        item
        for item in document.results
        if item.case.is_reference or variant in ("", item.case.variant)
    ]


def _row(row: CaseComparison, sides: _Sides, *, baseline_variant: str) -> ComparedRow:
    before, after = sides.baseline.get(row.case.key), sides.candidate.get(row.case.key)
    variant = baseline_variant or row.case.variant
    comparison = row.comparison
    return ComparedRow(
        baseline_case=dataclasses.replace(row.case, variant=variant),
        candidate_case=row.case,
        metric=row.metric,
        unit=row.unit,
        baseline=row.baseline,
        candidate=row.candidate,
        ratio=comparison.ratio,
        machine_ratio=row.machine_ratio,
        low=comparison.low,
        high=comparison.high,
        verdict=comparison.verdict,
        is_significant=comparison.is_significant,
        is_relevant=comparison.is_relevant,
        reason=comparison.reason,
        result_id="" if after is None else after.id,
        has_kernels=all(item is not None and "profile" in item.details for item in (before, after)),
        is_one_sided=before is None or after is None,
    )


def _level_pairs(
    before: RunDocument, after: RunDocument, *, variants: tuple[str, str]
) -> tuple[LevelPair, ...]:
    """Return the levels of like cases of both runs, which may be of two devices."""
    sides = [
        {_like(item.case, chosen=variants[1]): item for item in _chosen(document, variant)}
        for document, variant in zip((before, after), variants, strict=True)
    ]
    pairs = [
        _level_pair(sides[0][key], sides[1][key], metric=metric)
        for key in sides[0]
        if key in sides[1] and not sides[0][key].case.is_reference
        for metric in OVERVIEW_METRICS
    ]
    # A metric without a unit here has a value on neither side, such as the speedup of eager.
    return tuple(
        pair
        for pair in pairs
        if pair.unit
        or pair.baseline.outcome is not Outcome.OK
        or pair.candidate.outcome is not Outcome.OK
    )


def _like(case: Case, *, chosen: str) -> tuple[str, ...]:
    shared = dataclasses.replace(case, variant=chosen or case.variant)
    return tuple(str(getattr(shared, name)) for name in _LIKE)


def _level_pair(before: CaseResult, after: CaseResult, *, metric: str) -> LevelPair:
    measured = [item.measurement(metric) for item in (before, after)]
    return LevelPair(
        baseline_case=before.case,
        candidate_case=after.case,
        metric=metric,
        unit=next((item.unit for item in measured if item is not None), ""),
        baseline=_level(before, metric),
        candidate=_level(after, metric),
    )


def _level(result: CaseResult, metric: str) -> Level:
    measurement = result.measurement(metric)
    if measurement is None:
        return Level(outcome=result.outcome)
    return Level(
        outcome=result.outcome,
        median=measurement.median,
        low=measurement.interval[0],
        high=measurement.interval[1],
    )
