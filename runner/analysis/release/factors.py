"""The factors of a judged case: its parts of the plan, and the symptoms of its change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compile_hud.db.records.results import Case

MODEL: Final = "model"
FAMILY: Final = "family"
PHASE: Final = "phase"
DTYPE: Final = "dtype"
SHAPE: Final = "shape"
MODE: Final = "mode"
DEVICE: Final = "device"
KERNEL_KIND: Final = "kernel kind"
OPERATOR: Final = "operator"
FINDING: Final = "finding"
# The kernel diff of a regression shows them. Of another case they are known if it is profiled.
SYMPTOMS: Final = (KERNEL_KIND, OPERATOR, FINDING)
# The order in which a sentence names them.
NAMES: Final = (PHASE, FAMILY, MODEL, *SYMPTOMS, DTYPE, MODE, SHAPE, DEVICE)


@dataclass(frozen=True, slots=True, order=True)
class Factor:
    """One property of a case, or one symptom of its change."""

    name: str
    value: str


def case_factors(
    case: Case,
    *,
    grown_kinds: Sequence[str] = (),
    grown_operators: Sequence[str] = (),
    new_findings: Sequence[str] = (),
) -> tuple[Factor, ...]:
    """Return the factors of a case, symptoms last.

    Kernel kinds and operators of a regression are those whose time grew. Of any other case they
    are all that it executes, the base rate of the symptom; with none of them it is unknown.
    """
    values = {
        MODEL: (case.model,),
        FAMILY: (case.family,),
        PHASE: (str(case.phase),),
        DTYPE: (str(case.dtype),),
        SHAPE: (case.shape,),
        MODE: (case.variant,),
        DEVICE: (case.device,),
        KERNEL_KIND: grown_kinds,
        OPERATOR: grown_operators,
        FINDING: new_findings,
    }
    return tuple(
        Factor(name, value) for name, own in values.items() for value in dict.fromkeys(own)
    )
