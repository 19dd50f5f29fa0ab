"""Judged cases for the tests of clusters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection

from compile_hud.db.records.results import Case
from compile_hud.runner.analysis.release.clusters import JudgedCase
from compile_hud.runner.analysis.release.factors import case_factors
from tests.support.builders import make_case

MODES = ("eager", "default", "max-autotune")


def judged(
    case: Case,
    *,
    is_regression: bool = False,
    ratio: float | None = None,
    kinds: Collection[str] = (),
    findings: Collection[str] = (),
) -> JudgedCase:
    """Return a judged case; the ratio follows from the answer unless it is given."""
    return JudgedCase(
        case=case,
        factors=case_factors(case, grown_kinds=sorted(kinds), new_findings=sorted(findings)),
        is_regression=is_regression,
        ratio=(1.1 if is_regression else 1.0) if ratio is None else ratio,
    )


def no_kinds(_: Case) -> tuple[str, ...]:
    """Return no kernel kinds: the case is not profiled."""
    return ()


def every(_: Case) -> bool:
    """Return True: each case regresses."""
    return True


def none(_: Case) -> bool:
    """Return False: no case regresses."""
    return False


def release(
    regressed: Callable[[Case], bool], *, kinds: Callable[[Case], Collection[str]] = no_kinds
) -> list[JudgedCase]:
    """Return 144 cases: twelve models of four families, two phases, two dtypes, three modes."""
    return [
        judged(case, is_regression=regressed(case), kinds=kinds(case))
        for number, phase, dtype, mode in itertools.product(
            range(12), ("inference", "training"), ("bf16", "fp32"), MODES
        )
        for case in [
            make_case(
                f"model-{number}",
                family=f"family-{number // 3}",
                phase=phase,
                dtype=dtype,
                mode=mode,
            )
        ]
    ]
