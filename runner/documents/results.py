"""The results and findings of a stored run as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.results import (
    load_document,
    load_profiled_document,
    load_result,
    load_result_summaries,
)
from compile_hud.db.records.codec import encode
from compile_hud.db.records.results import CaseResult, Run, RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.analysis.findings.documents import (
    case_findings,
    document_json,
    run_findings,
    with_findings,
)
from compile_hud.runner.documents.cases import case_glob, find_case
from compile_hud.runner.documents.kernels import no_kernels_text
from compile_hud.runner.documents.stored_runs import find_run


def run_document(store: Store, run_name: str) -> dict[str, Any]:
    """Return a whole run with its results, kernels and findings."""
    run = find_run(run_name, store=store)
    return document_json(load_document(store, run.id, has_kernels=True))


def result_summaries(store: Store, run_name: str, *, case_name: str) -> list[dict[str, Any]]:
    """Return the results of a run without samples and kernels, in plan order.

    `case_name` is a part of a key, or a glob; "" is every case.
    """
    run = find_run(run_name, store=store)
    return [
        encode(result)
        for result in load_result_summaries(store, run.id)
        if _fits(result.case.key, case_name)
    ]


def case_document(store: Store, run_name: str, case_name: str) -> dict[str, Any]:
    """Return a run with the result of one case, whole and with its findings."""
    document, result = load_case(store, run_name, case_name)
    findings = case_findings(document, result)
    return with_findings(replace(document, results=(result,)), {result.id: findings})


def load_case(store: Store, run_name: str, case_name: str) -> tuple[RunDocument, CaseResult]:
    """Return the variants of a case in a run, with kernels, and the result that `case_name` names.

    The findings of a case need its kernels and those of eager, not those of other models.
    """
    run = find_run(run_name, store=store)
    case = find_case(load_result_summaries(store, run.id), case_name, run=run.id).case
    document = load_document(store, run.id, has_kernels=True, case_key=case.key)
    result = next(item for item in document.results if item.case.key == case.key)
    return document, result


def load_kernels(store: Store, run_name: str, case_name: str) -> tuple[Run, CaseResult]:
    """Return a run and the result of one of its cases with kernels; raise NotFoundError."""
    run = find_run(run_name, store=store)
    named = find_case(load_result_summaries(store, run.id), case_name, run=run.id)
    result = load_result(store, named.id)
    if not result.kernels:
        raise NotFoundError(no_kernels_text(result, run=run))
    return run, result


def findings_json(
    store: Store, run_name: str, *, codes: Collection[str], case_name: str
) -> list[dict[str, Any]]:
    """Return the findings of a run, each with its run, result and case, in plan order.

    Without `codes` they are all findings; `case_name` is as in `result_summaries`.
    """
    run = find_run(run_name, store=store)
    document = load_profiled_document(store, run.id)
    return [
        item
        for item in _findings(document)
        if item["code"] in (codes or (item["code"],)) and _fits(item["case"], case_name)
    ]


def _findings(document: RunDocument) -> Iterator[dict[str, Any]]:
    findings = run_findings(document)
    for result in document.results:
        names = {"run_id": document.run.id, "result_id": result.id, "case": result.case.key}
        for finding in findings[result.id]:
            yield {**names, **finding.to_json()}


def _fits(key: str, case_name: str) -> bool:
    return not case_name or key == case_name or fnmatchcase(key, case_glob(case_name))
