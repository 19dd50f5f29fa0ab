"""Summaries of the compile modes over the models that all of them ran. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from compile_hud.app.data.page_records import ModeSummary
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Outcome, same_code_as
from compile_hud.db.records.summaries import LatestCell
from compile_hud.db.records.triage import MISSING_KINDS, ONGOING, missing_cases
from compile_hud.runner.analysis.modes.choice import EAGER
from compile_hud.runner.analysis.modes.records import MODES
from compile_hud.runner.analysis.stats.cohort import cohort_means, pass_rate
from compile_hud.runner.analysis.trends.trends import subject_of

MODE_ORDER = (EAGER, *MODES)


def mode_summaries(
    cells: Sequence[LatestCell], *, alerts: Sequence[Alert]
) -> tuple[ModeSummary, ...]:
    """Return a summary of each compile mode for the models of `cells`, over the common cohort.

    The cohort is common to PyTorch's modes only: variants that few models have would shrink it. A
    missing or overdue case is not ok, whatever its newest result was. `cells` and `alerts` are of
    one machine and one toolchain.
    """
    missing = missing_cases(alerts)
    by_mode = {
        mode: [cell for cell in cells if cell.summary.case.variant == mode]
        for mode in MODE_ORDER[1:]
    }
    present = {
        mode: [cell for cell in own if cell.summary.case.key not in missing]
        for mode, own in by_mode.items()
    }
    columns = {mode: _speedups(own) for mode, own in present.items()}
    for mode, own in present.items():
        columns[mode].update(_speedups_of_same_code(own, columns))
    cohort = cohort_means({mode: column for mode, column in columns.items() if column})
    num_subjects = len({subject_of(cell.summary.case) for cell in cells})
    summaries = []
    for mode, own in by_mode.items():
        if not own:
            continue
        outcomes = [cell.summary.outcome for cell in present[mode]]
        passed = pass_rate(outcomes)
        kinds = Counter(
            missing[cell.summary.case.key].kind for cell in own if cell.summary.case.key in missing
        )
        summaries.append(
            ModeSummary(
                variant=mode,
                mean=cohort.means.get(mode),
                num_common=cohort.num_common,
                num_subjects=num_subjects,
                num_speedups=len(columns[mode]),
                num_ok=passed.num_ok,
                num_attempted=passed.num_attempted + kinds.total(),
                failures=_ended_badly(outcomes, is_attempted=True),
                untried=_ended_badly(outcomes, is_attempted=False),
                missing=tuple((kind, kinds[kind]) for kind in MISSING_KINDS if kinds[kind]),
                effective_modes=_fallbacks(present[mode]),
            )
        )
    return tuple(summaries)


def _ended_badly(outcomes: Sequence[Outcome], *, is_attempted: bool) -> tuple[tuple[str, int], ...]:
    """Return the number of each bad outcome, of attempted cases or of the others."""
    counts = Counter(outcomes)
    return tuple(
        (str(outcome), counts[outcome])
        for outcome in Outcome
        if outcome is not Outcome.OK
        and counts[outcome]
        and bool(pass_rate([outcome]).num_attempted) is is_attempted
    )


def _speedups(cells: Sequence[LatestCell]) -> dict[str, float]:
    return {
        subject_of(cell.summary.case): cell.summary.measurements["speedup"].median
        for cell in cells
        if "speedup" in cell.summary.measurements
    }


def _speedups_of_same_code(
    cells: Sequence[LatestCell], columns: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Return the speedups of `cells` that were measured as another mode with the same code."""
    shared = {}
    for cell in cells:
        summary = cell.summary
        other = same_code_as(summary.outcome, summary.reason)
        speedup = columns.get(other, {}).get(subject_of(summary.case))
        if speedup is not None:
            shared[subject_of(summary.case)] = speedup
    return shared


def _fallbacks(cells: Sequence[LatestCell]) -> tuple[tuple[str, int], ...]:
    counts = Counter(
        cell.summary.effective_mode
        for cell in cells
        if cell.summary.effective_mode not in ("", cell.summary.case.mode)
    )
    return tuple(counts.most_common())


def _live(alerts: Iterable[Alert]) -> list[Alert]:
    return [alert for alert in alerts if alert.state in ONGOING]
