"""same-code: the mode changes nothing on this device."""

from __future__ import annotations

from collections.abc import Iterator

from compile_hud.db.records.findings import Exhibit
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the variant that has the same code, if the case was not measured for that."""
    other = case.result.same_code_as
    if other:
        yield Draft(
            text=f"this mode compiles to the same code as `{other}`",
            evidence=(Exhibit(kind="outcome", name=case.result.reason),),
        )


KIND = FindingKind(
    code="same-code",
    meaning="The mode compiles to the same code as another one that was measured.",
    remedy="use either mode: this one brings nothing here",
    source="hash of the generated code",
    rule=find,
    min_share=None,
)
