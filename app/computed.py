"""What the dashboard computes from what it reads: modes over the common cohort, noise bands. Pure.

With `app.data` the only module that uses `runner.analysis`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from app.history import segments
from app.matrix import MODE_ORDER, vanished_cases
from app.pages import Band, ModeSummary
from db.records import Alert, Case
from db.summaries import LatestCell, TrendPoint
from runner.analysis.aggregate import cohort_means, pass_rate
from runner.analysis.detector import describe_steps
from runner.analysis.history import MIN_BASELINE_POINTS, NOISE_MULTIPLE
from runner.analysis.stats import robust_sd


def mode_summaries(
    cells: Sequence[LatestCell], *, alerts: Sequence[Alert]
) -> tuple[ModeSummary, ...]:
    """Return what each compile mode does for the models of `cells`, over the common cohort.

    The cohort is common to PyTorch's modes alone: variants that only some models have would
    shrink it. A case that vanished is not ok, whatever its newest result was. `cells` and `alerts`
    are of one machine and one toolchain.
    """
    gone = vanished_cases(alerts)
    by_mode = {
        mode: [cell for cell in cells if cell.summary.case.variant == mode]
        for mode in MODE_ORDER[1:]
    }
    present = {
        mode: [cell for cell in found if cell.summary.case.key not in gone]
        for mode, found in by_mode.items()
    }
    columns = {mode: _speedups(found) for mode, found in present.items()}
    cohort = cohort_means({mode: column for mode, column in columns.items() if column})
    num_subjects = len({_subject(cell.summary.case) for cell in cells})
    summaries = []
    for mode, found in by_mode.items():
        if not found:
            continue
        passed = pass_rate(cell.summary.outcome for cell in present[mode])
        num_gone = len(found) - len(present[mode])
        summaries.append(
            ModeSummary(
                variant=mode,
                mean=cohort.means.get(mode),
                num_common=cohort.num_common,
                num_subjects=num_subjects,
                num_ok=passed.num_ok,
                num_tried=passed.num_tried + num_gone,
                effective_modes=_fallbacks(present[mode]),
            )
        )
    return tuple(summaries)


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


def _subject(case: Case) -> str:
    return "/".join((case.model, case.phase, case.shape, case.dtype, case.device))


def _speedups(cells: Sequence[LatestCell]) -> dict[str, float]:
    return {
        _subject(cell.summary.case): cell.summary.measurements["speedup"].median
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
