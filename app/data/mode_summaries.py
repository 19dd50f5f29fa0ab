"""What the dashboard computes from what it reads: modes over the common cohort, noise bands,
levels at one pace and the intervals of a sweep. Pure.

With the modules that read (`app.data.store` and those named `..._data`) the only one that calls
`runner.analysis`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compile_hud.app.components.result_matrix import MISSING_KINDS, MODE_ORDER, missing_cases
from compile_hud.app.data.page_records import Band, ModeSummary
from compile_hud.app.data.series import segments
from compile_hud.app.views.runs.shape_sweep import Sweep, Swept, SweptShape
from compile_hud.db.records._merge_points import point_columns
from compile_hud.db.records.results import Alert, Case, Outcome, Run
from compile_hud.db.records.summaries import LatestCell, SeriesHeader, TrendPoint
from compile_hud.db.shared.text import printable
from compile_hud.runner.analysis.detection.constants import MIN_BASELINE_POINTS, NOISE_MULTIPLE
from compile_hud.runner.analysis.detector import describe_steps
from compile_hud.runner.analysis.judging.cost_step import Track
from compile_hud.runner.analysis.judging.machine_pace import at_one_pace
from compile_hud.runner.analysis.outcomes.outcomes import CUSTOM_SUITE
from compile_hud.runner.analysis.repro import compare_command, suite_command
from compile_hud.runner.analysis.stats._merge_analysis_sweep import speedups
from compile_hud.runner.analysis.stats.cohort import cohort_means, pass_rate
from compile_hud.runner.analysis.stats.estimates import estimate, robust_sd
from compile_hud.runner.analysis.stats.launch_levels import PACE, PACED_TIMES


def run_command(run: Run) -> str:
    """Return the command that measures what `run` did again, "" where there is none.

    A selection by hand has no name.
    """
    if run.suite == CUSTOM_SUITE:
        return ""
    return printable(suite_command(run.suite, toolchain=run.toolchain))


def comparing_command(baseline: Run, candidate: Run) -> str:
    """Return the command that compares two runs in a terminal."""
    return printable(compare_command(baseline.id, candidate.id))


def mode_summaries(
    cells: Sequence[LatestCell], *, alerts: Sequence[Alert]
) -> tuple[ModeSummary, ...]:
    """Return what each compile mode does for the models of `cells`, over the common cohort.

    The cohort is common to PyTorch's modes alone: variants that only some models have would
    shrink it. A case that vanished or is late is not ok, whatever its newest result was. `cells`
    and `alerts` are of one machine and one toolchain.
    """
    missing = missing_cases(alerts)
    by_mode = {
        mode: [cell for cell in cells if cell.summary.case.variant == mode]
        for mode in MODE_ORDER[1:]
    }
    present = {
        mode: [cell for cell in found if cell.summary.case.key not in missing]
        for mode, found in by_mode.items()
    }
    columns = {mode: _speedups(found) for mode, found in present.items()}
    cohort = cohort_means({mode: column for mode, column in columns.items() if column})
    num_subjects = len({subject_of(cell.summary.case) for cell in cells})
    summaries = []
    for mode, found in by_mode.items():
        if not found:
            continue
        outcomes = [cell.summary.outcome for cell in present[mode]]
        passed = pass_rate(outcomes)
        kinds = Counter(
            missing[cell.summary.case.key].kind
            for cell in found
            if cell.summary.case.key in missing
        )
        summaries.append(
            ModeSummary(
                variant=mode,
                mean=cohort.means.get(mode),
                num_common=cohort.num_common,
                num_subjects=num_subjects,
                num_speedups=len(columns[mode]),
                num_ok=passed.num_ok,
                num_tried=passed.num_tried + kinds.total(),
                failures=_ended_badly(outcomes, is_tried=True),
                untried=_ended_badly(outcomes, is_tried=False),
                missing=tuple((kind, kinds[kind]) for kind in MISSING_KINDS if kinds[kind]),
                effective_modes=_fallbacks(present[mode]),
            )
        )
    return tuple(summaries)


def _ended_badly(outcomes: Sequence[Outcome], *, is_tried: bool) -> tuple[tuple[str, int], ...]:
    """Return how often each bad outcome is there, of those that count as tried or of the others."""
    counts = Counter(outcomes)
    return tuple(
        (str(outcome), counts[outcome])
        for outcome in Outcome
        if outcome is not Outcome.OK
        and counts[outcome]
        and bool(pass_rate([outcome]).num_tried) is is_tried
    )


def noise_bands(points: Sequence[TrendPoint]) -> tuple[Band, ...]:
    """Return the levels of a series with their noise bands.

    A level ends where the environment changes or the detector finds a step. Its band is the median
    of its points +- NOISE_MULTIPLE robust standard deviations of them. Levels with fewer than
    MIN_BASELINE_POINTS points, and series that touch 0, have none.
    """
    bands = []
    for segment in segments(points):
        values = np.asarray([point.median for point in segment])
        if not (values > 0).all():
            continue
        starts = [0, *(step.index for step in describe_steps(values))]
        for start, end in zip(starts, [*starts[1:], len(segment)], strict=True):
            if end - start >= MIN_BASELINE_POINTS:
                bands.append(_band(segment[start:end]))
    return tuple(bands)


def at_pace(
    points: Sequence[TrendPoint],
    *,
    paces: Sequence[TrendPoint],
    headers: Sequence[SeriesHeader],
) -> tuple[TrendPoint, ...]:
    """Return `points`, times of one case, as they would be at one pace: what the judge looks at.

    `paces` are the points of the pace in the same runs, `headers` the series of both. Each
    environment has a pace of its own. Empty where none was measured, of reference cases (they tell
    how the machine moved) and of what is no time.
    """
    known = {header.key: header for header in headers}
    found: dict[str, TrendPoint] = {}
    for key, together in _by_series(points).items():
        header = known.get(key)
        beside = [item for item in paces if item.fingerprint == together[0].fingerprint]
        if header is None or not beside or not _is_paced(header):
            continue
        pace = dataclasses.replace(header, metric=PACE, key=beside[0].series_key)
        tracks = {
            item.metric: _track(item, of) for item, of in ((header, together), (pace, beside))
        }
        scaled = at_one_pace(tracks)[header.metric].points
        for point, level in zip(together, scaled, strict=True):
            found[point.result_id] = dataclasses.replace(
                point, median=level.median, low=level.low, high=level.high
            )
    return tuple(found.get(point.result_id, point) for point in points) if found else ()


def sweep_of(details: Mapping[str, Any]) -> Sweep | None:
    """Return the sweep of a case result with its medians and intervals, None where it has none."""
    found = details.get("shapes")
    if not isinstance(found, Mapping) or not found.get("rows"):
        return None
    return Sweep(
        axis=str(found["axis"]),
        own=int(found["own"]),
        clock=str(found["clock"]),
        shapes=tuple(map(_swept_shape, found["rows"])),
    )


def _swept_shape(row: Mapping[str, Any]) -> SweptShape:
    return SweptShape(
        value=row["value"],
        eager=_swept(row["eager_s"]),
        variant=_swept(row["variant_s"]),
        speedup=_swept(speedups(row)),
        num_rounds=len(row["variant_s"]),
        num_recompiles=row["num_recompiles"],
        compile_s=row["compile_s"],
        guards=tuple(str(place["reason"]) for place in row["recompiles"]),
        has_given_up=row["has_given_up"],
        reason=row["reason"],
    )


def _swept(samples: Sequence[float]) -> Swept:
    found = estimate(samples)
    return Swept(median=found.value, low=found.low, high=found.high)


def subject_of(case: Case) -> str:
    """Return what the variants of one case share, its model first."""
    return "/".join((case.model, case.phase, case.shape, case.dtype, case.device))


def _is_paced(header: SeriesHeader) -> bool:
    return header.metric in PACED_TIMES and not header.case.is_reference


def _by_series(points: Sequence[TrendPoint]) -> dict[str, list[TrendPoint]]:
    found: dict[str, list[TrendPoint]] = defaultdict(list)
    for point in points:
        found[point.series_key].append(point)
    return found


def _track(header: SeriesHeader, points: Sequence[TrendPoint]) -> Track:
    return Track(
        header=header,
        machine=points[0].machine,
        toolchain=points[0].toolchain,
        points=point_columns(header.key, points),
    )


def _speedups(cells: Sequence[LatestCell]) -> dict[str, float]:
    return {
        subject_of(cell.summary.case): cell.summary.measurements["speedup"].median
        for cell in cells
        if "speedup" in cell.summary.measurements
    }


def _fallbacks(cells: Sequence[LatestCell]) -> tuple[tuple[str, int], ...]:
    counts = Counter(
        cell.summary.effective_mode
        for cell in cells
        if cell.summary.effective_mode not in ("", cell.summary.case.mode)
    )
    return tuple(counts.most_common())


def _band(level: Sequence[TrendPoint]) -> Band:
    values = [point.median for point in level]
    middle = float(np.median(values))
    margin = NOISE_MULTIPLE * robust_sd(values)
    return Band(
        start=level[0].at,
        end=level[-1].at,
        level=middle,
        low=middle - margin,
        high=middle + margin,
    )
