"""The findings of a whole run, and the result document with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.db.records.findings import Finding
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.runner.analysis.findings.registry import findings_of
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence


def document_json(document: RunDocument) -> dict[str, Any]:
    """Return a run as a JSON object, each result with its findings.

    Readers of the document ignore the findings and derive them again.
    """
    return with_findings(document, run_findings(document))


def with_findings(
    document: RunDocument, findings: Mapping[str, Sequence[Finding]]
) -> dict[str, Any]:
    """Return a run as a JSON object with `findings` by the id of the result."""
    content = document.to_json()
    for result in content["results"]:
        result["findings"] = [finding.to_json() for finding in findings[result["id"]]]
    return content


def run_findings(document: RunDocument) -> dict[str, tuple[Finding, ...]]:
    """Return the findings of each result of a run, by the id of the result."""
    groups: dict[tuple[str, ...], list[CaseResult]] = {}
    for result in document.results:
        groups.setdefault(_model_key(result), []).append(result)
    return {
        result.id: _findings(document, result, group=group)
        for group in groups.values()
        for result in group
    }


def case_findings(
    document: RunDocument, result: CaseResult, *, previous: CaseResult | None = None
) -> tuple[Finding, ...]:
    """Return the findings of one result of a run; `previous` is the last good one of its case."""
    key = _model_key(result)
    group = [item for item in document.results if _model_key(item) == key]
    return _findings(document, result, group=group, previous=previous)


def new_findings(good: RunDocument, bad: RunDocument, *, case_key: str) -> tuple[Finding, ...]:
    """Return the findings of a case in the run `bad` whose codes it has not in the run `good`."""
    before, after = _result_of(good, case_key), _result_of(bad, case_key)
    if before is None or after is None:
        return ()
    known = {finding.code for finding in case_findings(good, before)}
    findings = case_findings(bad, after, previous=before)
    return tuple(finding for finding in findings if finding.code not in known)


def _result_of(document: RunDocument, case_key: str) -> CaseResult | None:
    return next((item for item in document.results if item.case.key == case_key), None)


def _findings(
    document: RunDocument,
    result: CaseResult,
    *,
    group: Sequence[CaseResult],
    previous: CaseResult | None = None,
) -> tuple[Finding, ...]:
    return findings_of(
        ResultEvidence(
            result=result,
            eager=next((item for item in group if item.case.is_eager), None),
            siblings=tuple(item for item in group if item is not result),
            previous=previous,
            environment=document.run.environment,
        )
    )


def _model_key(result: CaseResult) -> tuple[str, ...]:
    case = result.case
    return case.model, str(case.phase), case.shape, str(case.dtype), case.device
