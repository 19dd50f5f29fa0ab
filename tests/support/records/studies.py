"""Results of cases in a run of a study, for tests."""

from __future__ import annotations

from collections.abc import Mapping

from compile_hud.db.records.results import Outcome
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.study import Study, StudyCases, StudyResult, TableSpec
from tests.support.builders import make_case


def make_seen(
    model: str = "bert",
    *,
    outcome: Outcome = Outcome.OK,
    reason: str = "",
    effective_mode: str = "",
    values: Mapping[str, tuple[float, float, float]] | None = None,
    **case: str,
) -> StudyResult:
    """Return the result of a case; by default its speedup is 2 [1.9, 2.1]."""
    numbers = {"speedup": (2.0, 1.9, 2.1)} if values is None else values
    return StudyResult(
        case=make_case(model, **case),  # type: ignore[arg-type]
        outcome=outcome,
        reason=reason,
        effective_mode=effective_mode,
        values={name: Estimate(*number) for name, number in numbers.items()}
        if outcome is Outcome.OK
        else {},
    )


def speedup(model: str, value: float, **case: str) -> StudyResult:
    """Return an ok case whose speedup is `value` +- 1 %."""
    return make_seen(model, values={"speedup": (value, value / 1.01, value * 1.01)}, **case)


def make_study(*tables: TableSpec, variants: tuple[str, ...] = ("eager", "default")) -> Study:
    """Return a study of `tables` that requests `variants` on a CPU."""
    return Study(
        name="mine",
        title="Mine",
        question="How fast is it?",
        cases={"cpu": StudyCases(models=("bert",), variants=variants, shapes=("tiny",))},
        tables=tables or (TableSpec(title="Speedup", rows="family"),),
    )
