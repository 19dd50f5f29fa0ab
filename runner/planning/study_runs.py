"""Runs of a study: the suite that measures its cases on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compile_hud.db.records.results import MEASURED_DTYPES
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.analysis.studies.study import Study
from compile_hud.runner.planning.plan import find_named, find_names
from compile_hud.runner.planning.suites import Selection, Suite

# A study measures many cases once, not one case night after night. Two launches have a cold and a
# warm compilation. Its tables round to speedups within a few per cent.
_NUM_LAUNCHES = 2
_NUM_ROUNDS = 30
_BUDGET_S = 1.0


def find_study(name: str) -> Study:
    """Return the study `name`; raise UnknownNameError if it is missing."""
    return find_named(name, known=STUDIES, kind="study")


def study_suite(
    study: Study, *, device: str, models: Sequence[str] = (), variants: Sequence[str] = ()
) -> Suite:
    """Return the suite that measures `study` on `device`; it omits cases that this version lacks.

    The globs `models` and `variants` select a subset. Raises UnknownNameError for a glob without a
    match in the study.
    """
    cases = study.cases[device]
    cases = replace(
        cases,
        models=find_names(models or ("*",), known=cases.models, kind="model of the study"),
        variants=find_names(variants or ("*",), known=cases.variants, kind="mode of the study"),
    )
    return Suite(
        name=study.suite,
        summary=study.title,
        selection=Selection(
            models=cases.models,
            modes=tuple(name for name in cases.variants if name in VARIANTS),
            phases=cases.phases,
            dtypes=tuple(name for name in cases.dtypes if name in tuple(MEASURED_DTYPES)),
            shapes=cases.shapes,
        ),
        num_launches=_NUM_LAUNCHES,
        max_launches=_NUM_LAUNCHES,
        num_rounds=_NUM_ROUNDS,
        budget_s=_BUDGET_S,
        # A study names its shapes, so it measures no sweep over other shapes.
        sweep=False,
    )
