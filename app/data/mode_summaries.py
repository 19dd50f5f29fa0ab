"""Summaries of the compile modes over the models that all of them ran, for each phase. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compile_hud.app.data.page_records import ModeSummary
from compile_hud.app.ui.urls import AlertsState, alerts_url, decide_url, run_url
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Case, Outcome, Phase, same_code_as
from compile_hud.db.records.summaries import LatestCell
from compile_hud.db.records.triage import MISSING_KINDS, ONGOING, missing_cases
from compile_hud.db.shared.text import one_line
from compile_hud.runner.analysis.modes.choice import EAGER
from compile_hud.runner.analysis.modes.records import MODES
from compile_hud.runner.analysis.stats.cohort import pass_rate
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.stats.model_means import ModelShape, ModeNumber, mode_means

MODE_ORDER = (EAGER, *MODES)


def mode_summaries(
    cells: Sequence[LatestCell], *, alerts: Sequence[Alert]
) -> tuple[ModeSummary, ...]:
    """Return a summary of each compile mode for the models of `cells`, phase by phase.

    The cohort is common to PyTorch's modes only: variants that few models have would shrink it. A
    missing or overdue case is not ok, whatever its newest result was. `cells` and `alerts` are of
    one machine and one toolchain.
    """
    missing = missing_cases(alerts)
    groups: dict[tuple[str, str], list[LatestCell]] = {}
    for cell in cells:
        case = cell.summary.case
        if case.variant in MODES and not case.is_reference:
            groups.setdefault((case.phase, case.device), []).append(cell)
    phases = list(Phase)
    keys = sorted(groups, key=lambda key: (phases.index(Phase(key[0])), key[1]))
    varied = [index for index in (0, 1) if len({key[index] for key in keys}) > 1]
    return tuple(
        summary
        for key in keys
        for summary in _summaries(
            groups[key], missing=missing, label=" ".join(key[index] for index in varied)
        )
    )


def _summaries(
    cells: Sequence[LatestCell], *, missing: Mapping[str, Alert], label: str
) -> Iterator[ModeSummary]:
    """Yield the summaries of one phase on one device, in the order of the modes."""
    by_mode = {
        mode: [cell for cell in cells if cell.summary.case.variant == mode] for mode in MODES
    }
    present = {
        mode: [cell for cell in own if cell.summary.case.key not in missing]
        for mode, own in by_mode.items()
    }
    columns = _numbers(present)
    means = mode_means(columns)
    num_models = len({cell.summary.case.model for cell in cells})
    for mode, own in by_mode.items():
        if not own:
            continue
        outcomes = [cell.summary.outcome for cell in present[mode]]
        passed = pass_rate(outcomes)
        kinds = Counter(
            missing[cell.summary.case.key].kind for cell in own if cell.summary.case.key in missing
        )
        yield ModeSummary(
            variant=mode,
            label=label,
            mean=means.means[mode].value if mode in means.means else None,
            num_common=len({item.model for item in means.cohort if item in columns[mode]}),
            num_subjects=num_models,
            stand_in=means.stand_ins.get(mode, ""),
            num_speedups=len({item.model for item in columns[mode]}),
            num_ok=passed.num_ok,
            num_attempted=passed.num_attempted + kinds.total(),
            failures=_ended_badly(outcomes, is_attempted=True),
            untried=_ended_badly(outcomes, is_attempted=False),
            missing=tuple((kind, kinds[kind]) for kind in MISSING_KINDS if kinds[kind]),
            effective_modes=_fallbacks(present[mode]),
            unavailable="" if kinds else _unavailable_reason(own),
            bad_urls=_bad_urls(own, missing=missing),
        )


def _bad_urls(cells: Sequence[LatestCell], *, missing: Mapping[str, Alert]) -> dict[str, str]:
    """Return the address of the cases of each bad outcome, and of each kind of missing ones.

    A single case has its own page; several have their run, or the list of alerts.
    """
    single: dict[str, list[str]] = defaultdict(list)
    several: dict[str, str] = {}
    for cell in cells:
        case, outcome = cell.summary.case, cell.summary.outcome
        alert = missing.get(case.key)
        if alert is not None:
            single[alert.kind].append(decide_url(alert.id))
            several[alert.kind] = alerts_url(AlertsState(mode=case.variant))
        elif not outcome.is_expected:
            single[str(outcome)].append(run_url(cell.run_id, case_key=case.key))
            several[str(outcome)] = run_url(cell.run_id)
    return {name: urls[0] if len(urls) == 1 else several[name] for name, urls in single.items()}


def _unavailable_reason(cells: Sequence[LatestCell]) -> str:
    """Return the most frequent reason of cases that are all unavailable, "" if one is not."""
    if any(cell.summary.outcome is not Outcome.UNAVAILABLE for cell in cells):
        return ""
    reasons = Counter(one_line(cell.summary.reason) for cell in cells)
    return reasons.most_common(1)[0][0] or "The device has no such mode."


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


def _numbers(
    present: Mapping[str, Sequence[LatestCell]],
) -> dict[str, dict[ModelShape, ModeNumber]]:
    """Return the speedups by mode; a case with the code of another mode has that one's."""
    own = {
        mode: {
            _subject(cell.summary.case): ModeNumber(estimate, _fallback(cell))
            for cell in cells
            if (estimate := _speedup(cell))
        }
        for mode, cells in present.items()
    }
    numbers = {mode: dict(column) for mode, column in own.items()}
    for mode, cells in present.items():
        for cell in cells:
            summary = cell.summary
            source, subject = same_code_as(summary.outcome, summary.reason), _subject(summary.case)
            if item := own.get(source, {}).get(subject):
                numbers[mode][subject] = ModeNumber(item.estimate, source)
    return numbers


def _subject(case: Case) -> ModelShape:
    return ModelShape(case.model, f"{case.shape}/{case.dtype}")


def _speedup(cell: LatestCell) -> Estimate | None:
    measured = cell.summary.measurements.get("speedup")
    return Estimate(measured.median, measured.low, measured.high) if measured else None


def _fallback(cell: LatestCell) -> str:
    """Return the mode that ran instead of that of a case, "" for none."""
    summary = cell.summary
    return summary.effective_mode if summary.effective_mode != summary.case.mode else ""


def _fallbacks(cells: Sequence[LatestCell]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(name for cell in cells if (name := _fallback(cell))).most_common())


def _live(alerts: Iterable[Alert]) -> list[Alert]:
    return [alert for alert in alerts if alert.state in ONGOING]
