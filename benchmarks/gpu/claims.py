"""The published figures, the rows of the ledger that answer each, and the verdict.

Our figure is the best of our ways to execute, with a range. The range joins its interval and the
speedups over the eager latencies of all processes that measured the same (`eager`).

- A gain is reproduced if the whole range reaches its lower bound, and refuted if none of it does.
- A loss, or an upper bound, is reproduced if the whole range stays below its upper bound.
- Other figures stay open.

All comparisons allow the relevance floor of 5 %.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from benchmarks.gpu.eager import EagerLevels
from benchmarks.gpu.ledger import Row, newest
from compile_hud.db.records.results import Case, Outcome, RunDocument
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.runner.analysis.stats.cohort import geometric_mean
from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.analysis.studies.study import (
    Published,
    Study,
    StudyResult,
    results_of_document,
)
from compile_hud.runner.analysis.studies.tables import (
    PublishedComparison,
    StudyCell,
    compare_published,
)

FLOOR = 0.05
# A figure of "compiled" that names no mode is refuted when all of these fall short of it.
_COMPILE_MODES = ("default", "reduce-overhead", "max-autotune")


class ClaimVerdict(StrEnum):
    """The verdict of our figure on a published one."""

    REPRODUCED = "reproduced"
    REFUTED = "refuted"
    NOT_COMPARABLE = "not comparable"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClaim:
    """A published figure of a study."""

    study: Study
    published: Published


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A claim with our figure on one device; `cell` is None without one."""

    claim: PublishedClaim
    verdict: ClaimVerdict
    reason: str
    variant: str = ""
    cell: StudyCell | None = None
    bounds: tuple[float, float] = (0.0, 0.0)
    rows: tuple[Row, ...] = ()


CLAIMS = tuple(
    PublishedClaim(study=study, published=figure)
    for study in STUDIES.values()
    for figure in study.published
)


def judge_claims(documents: Sequence[RunDocument], *, device: str) -> list[Judged]:
    """Return every claim with the verdict of the newest rows of `device`."""
    rows = [row for (name, _), row in newest(documents).items() if name == device]
    eager = EagerLevels(documents, device=device)
    return [_judge(claim, rows, eager) for claim in CLAIMS]


def cases_of_open_claims(
    documents: Sequence[RunDocument], *, cases: Iterable[Case]
) -> Collection[str]:
    """Return the keys of those of `cases` that some claim waits for on every device."""
    devices = {row[0] for row in newest(documents)} or {""}
    waiting = [
        judged.claim
        for device in devices
        for judged in judge_claims(documents, device=device)
        if judged.verdict is ClaimVerdict.OPEN
    ]
    return {case.key for case in cases if any(asks(claim, case) for claim in waiting)}


def asks(claim: PublishedClaim, case: Case) -> bool:
    """Return whether `case` is one of those that answer `claim`."""
    return _is_of_study(claim.study, case) and _fits(claim.published, case)


def _is_of_study(study: Study, case: Case) -> bool:
    cases = study.cases["cuda"]
    return (
        case.model in cases.models
        and case.variant in cases.variants
        and case.shape in cases.shapes
        and str(case.phase) in cases.phases
        and str(case.dtype) in cases.dtypes
    )


def _fits(figure: Published, case: Case) -> bool:
    dtypes = (*figure.dtypes, figure.baseline_dtype) if figure.baseline_dtype else figure.dtypes
    # The base of a figure is eager, in its own dtype or in that of the baseline.
    variants = (*figure.variants, "eager") if figure.variants else ()
    filters = (
        (figure.families, case.family),
        (figure.models, case.model),
        (figure.phases, str(case.phase)),
        (dtypes, str(case.dtype)),
        (figure.shapes, case.shape),
        (variants, case.variant),
    )
    return all(not allowed or value in allowed for allowed, value in filters)


def _judge(claim: PublishedClaim, rows: Sequence[Row], eager: EagerLevels) -> Judged:
    figure = claim.published
    if figure.unlike:
        return Judged(claim=claim, verdict=ClaimVerdict.NOT_COMPARABLE, reason=figure.unlike)
    own = [row for row in rows if _is_of_study(claim.study, row.case)]
    seen = results_of_document(row.result for row in own)
    position = list(claim.study.published).index(figure)
    comparison = compare_published(claim.study, seen)[position]
    cells = {name: cell for name, cell in comparison.ours.items() if cell.estimate is not None}
    if not cells:
        return Judged(claim=claim, verdict=ClaimVerdict.OPEN, reason=_why_open(comparison, seen))
    models = claim.study.cases["cuda"].models
    if left := _unmeasured(figure, models=models, cells=cells):
        reason = f"not measured yet: {', '.join(left)}"
        return Judged(claim=claim, verdict=ClaimVerdict.OPEN, reason=reason)
    sign = 1 if is_gain(figure) else -1
    name = max(cells, key=lambda item: sign * _value(cells[item]))
    ranges = [
        eager.speedup_range(row, baseline_dtype=figure.baseline_dtype)
        for row in own
        if row.case in cells[name].cases and row.result.outcome is Outcome.OK
    ]
    judged = Judged(
        claim=claim,
        verdict=ClaimVerdict.OPEN,
        reason="",
        variant=name,
        cell=cells[name],
        bounds=_bounds(cells[name], ranges),
        rows=tuple(row for row in own if row.case in cells[name].cases),
    )
    verdict, reason = _verdict(judged, untried=_untried(figure, cells))
    return replace(judged, verdict=verdict, reason=reason)


def is_gain(figure: Published) -> bool:
    """Return whether `figure` is a gain, not a loss or an upper bound."""
    return figure.low is not None and (figure.high is None or figure.high > 1)


def _verdict(judged: Judged, *, untried: Sequence[str]) -> tuple[ClaimVerdict, str]:
    figure, (low, high) = judged.claim.published, judged.bounds
    if is_gain(figure):
        assert figure.low is not None
        least = figure.low * (1 - FLOOR)
        is_reached, is_missed = low >= least, high < least
        has_more = figure.high is not None and low > figure.high * (1 + FLOOR)
    else:
        assert figure.high is not None
        most = figure.high * (1 + FLOOR)
        is_reached, is_missed, has_more = high <= most, low > most, False
    if is_reached:
        return ClaimVerdict.REPRODUCED, "more than published" if has_more else ""
    if untried:
        return ClaimVerdict.OPEN, f"not measured yet: {', '.join(untried)}"
    if is_missed:
        return ClaimVerdict.REFUTED, ""
    return ClaimVerdict.OPEN, "the range of ours has the published bound in it"


def _bounds(cell: StudyCell, ranges: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the bounds of our figure: its interval, and eager in other processes."""
    assert cell.estimate is not None
    low, high = cell.estimate.low, cell.estimate.high
    if ranges:
        low = min(low, geometric_mean(item[0] for item in ranges))
        high = max(high, geometric_mean(item[1] for item in ranges))
    return low, high


def _unmeasured(
    figure: Published, *, models: Sequence[str], cells: Mapping[str, StudyCell]
) -> list[str]:
    """Return the models of the figure that no cell has a case of."""
    measured = {case.model for cell in cells.values() for case in cell.cases}
    filters = [
        name
        for name in models
        if (not figure.models or name in figure.models)
        and (not figure.families or CATALOG[name].family in figure.families)
    ]
    return [name for name in filters if name not in measured]


def _untried(figure: Published, cells: Mapping[str, StudyCell]) -> list[str]:
    """Return the modes that might still reach a figure which names none."""
    return [] if figure.variants else [name for name in _COMPILE_MODES if name not in cells]


def _value(cell: StudyCell) -> float:
    assert cell.estimate is not None
    return cell.estimate.value


def _why_open(comparison: PublishedComparison, seen: Sequence[StudyResult]) -> str:
    reasons = [f"{name}: {cell.why}" for name, cell in comparison.ours.items() if cell.why]
    if reasons:
        return "; ".join(reasons)
    return "other cases of the study are measured, these are not" if seen else "not measured yet"
