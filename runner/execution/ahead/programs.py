"""The programs that the cases of a run compiled to, so that equal ones are sampled once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from compile_hud.db.records.results import SAME_CODE_AS, CaseResult, Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import program


class MeasuredPrograms:
    """The programs that the variants of a case compiled to in this run.

    Variants are compared if they build the same model; those that transform it are apart, because
    a layout or a precision also changes what no generated code shows.
    """

    def __init__(self) -> None:
        # By subject and name of the program: an order of each variant that has it.
        self._orders: defaultdict[str, defaultdict[str, dict[str, CaseOrder]]] = defaultdict(
            lambda: defaultdict(dict)
        )

    def others(self, order: CaseOrder) -> dict[str, str]:
        """Return the variant of each known program that precedes `order` in the plan."""
        known = self._orders[_subject_key(order)]
        firsts = {name: _first(variants) for name, variants in known.items() if variants}
        return {
            name: first.case.variant
            for name, first in firsts.items()
            if first.case.variant != order.case.variant and first.position <= order.position
        }

    def add(self, order: CaseOrder, name: str) -> str:
        """Remember the variant of `order` as the program `name`; return the first in the plan."""
        variants = self._orders[_subject_key(order)][name]
        variants[order.case.variant] = order
        return _first(variants).case.variant

    def note(self, order: CaseOrder, result: CaseResult) -> CaseResult:
        """Remember the program of `result`; add a warning if another variant has the same one.

        A case that is not ok has measured no program, also if its first launch was ok.
        """
        if result.outcome is not Outcome.OK:
            for variants in self._orders[_subject_key(order)].values():
                variants.pop(order.case.variant, None)
            return result
        sha256 = result.details.get("generated_code_sha256")
        if not isinstance(sha256, str):
            return result
        name = program(sha256, effective_mode=result.effective_mode)
        variant = self.add(order, name)
        if variant == order.case.variant:
            return result
        warning = RunWarning(
            code="same-code",
            text=f"{order.case.variant} is {SAME_CODE_AS}{variant}",
            hint="a difference in latency between the two is noise",
        )
        return replace(result, warnings=(*result.warnings, warning))


def _first(variants: Mapping[str, CaseOrder]) -> CaseOrder:
    return min(variants.values(), key=lambda order: order.position)


def _subject_key(order: CaseOrder) -> str:
    """Return one text for all variants of a case that compile the same model."""
    case = replace(order.case, variant="", mode="")
    # With dynamic shapes equal code runs behind other guards, so that is no equal program.
    workload = replace(order.workload, fullgraph=False, sweep=None, tolerance={})
    return f"{case.key} {json.dumps(workload.to_json(), sort_keys=True)}"
