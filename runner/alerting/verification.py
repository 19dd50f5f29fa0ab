"""Compute the verdict of a case file again from its numbers. Nothing of the store is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Measurement, RunDocument
from compile_hud.runner.alerting.case_file import BOUNDS, COMPUTED, CaseFile
from compile_hud.runner.analysis.judging.judge import judge_histories
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.analysis.stats.launch_noise import launch_spread
from compile_hud.runner.execution.launch_aggregation import BREAK_EVEN_METRICS, break_even


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedNumber:
    """A number as it was stored, and as it follows from the samples; None if nothing gives it."""

    name: str
    stored: Any
    computed: Any

    @property
    def is_same(self) -> bool:
        """Return whether both are the same, to the last digit."""
        return bool(self.stored == self.computed)


def recompute(case_file: CaseFile) -> tuple[RecomputedNumber, ...]:
    """Return the values of the verdict, and the medians and intervals of both runs.

    There are none for a failure or a missing case, which has no number.
    """
    if case_file.alert["change_pct"] is None and case_file.alert["baseline"] is None:
        return ()
    return (*_verdict(case_file), *_medians(case_file))


def _verdict(case_file: CaseFile) -> Iterator[RecomputedNumber]:
    alert, judged = case_file.alert, case_file.judged
    candidates = judge_histories(judged.series, references=judged.references, rules=judged.rules)
    computed = next(
        (item.alert.to_json() for item in candidates if item.alert.id == alert["id"]), None
    )
    for name in COMPUTED:
        yield RecomputedNumber(name=name, stored=alert[name], computed=computed and computed[name])


def _medians(case_file: CaseFile) -> Iterator[RecomputedNumber]:
    for side, document in case_file.runs.items():
        bound = case_file.alert[BOUNDS[side]]
        yield RecomputedNumber(
            name=f"{side} run", stored=bound and bound["run_id"], computed=document.run.id
        )
        if not document.run.is_synthetic and not is_imported(document.run.toolchain):
            yield from _medians_of(document, prefix=side)


def _medians_of(document: RunDocument, *, prefix: str) -> Iterator[RecomputedNumber]:
    for result in document.results:
        derived = break_even({item.metric: item for item in result.measurements})
        for item in result.measurements:
            if item.metric in BREAK_EVEN_METRICS:
                # It has no samples of its own: it follows from three other metrics.
                yield _derived(item, derived=derived, name=f"{prefix} {result.case.variant}")
                continue
            if item.metric not in METRICS or not item.launches:
                continue
            spread = launch_spread(item.metric, device=result.case.device)
            level = estimate(item.samples, launches=item.launches, prior=spread)
            yield RecomputedNumber(
                name=f"{prefix} {result.case.variant} {item.metric}",
                stored=[item.median, *item.interval],
                computed=[level.value, level.low, level.high],
            )


def _derived(item: Measurement, *, derived: Iterable[Measurement], name: str) -> RecomputedNumber:
    known = next((other for other in derived if other.metric == item.metric), None)
    return RecomputedNumber(
        name=f"{name} {item.metric}",
        stored=[item.median, *item.interval],
        computed=None if known is None else [known.median, *known.interval],
    )


def as_json(number: RecomputedNumber) -> Mapping[str, Any]:
    """Return the number as a JSON object."""
    return {
        "name": number.name,
        "stored": number.stored,
        "computed": number.computed,
        "is_same": number.is_same,
    }
