"""From a study to what a run of it measures here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compile_hud.db.records.results import MEASURED_DTYPES
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.analysis.studies.study import Study
from compile_hud.runner.planning.plan import find_named, find_names
from compile_hud.runner.planning.suites import Selection, Suite

# A study asks for many cases once, not for one case night after night: two launches have a cold
# and a warm compilation, and speedups within a few per cent are what its tables round to.
_NUM_LAUNCHES = 2
_NUM_ROUNDS = 30
_BUDGET_S = 1.0


def find_study(name: str) -> Study:
    """Return the study called `name`; raise UnknownNameError when there is none."""
    return find_named(name, known=STUDIES, kind="study")


def study_suite(
    study: Study, *, device: str, models: Sequence[str] = (), variants: Sequence[str] = ()
) -> Suite:
    """Return the suite whose run on `device` answers `study`, without what this version lacks.

    `models` and `variants`, globs, leave out the others. Raises UnknownNameError for one that
    matches nothing of the study.
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
        # Its shapes are named; what other shapes do is another question.
        sweep=False,
    )
