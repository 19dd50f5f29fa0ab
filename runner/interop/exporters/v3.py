"""Runs as PyTorch's benchmark records, schema v3: one record a line, as its uploader writes them.

v3.py reads back cases, outcomes, samples launch by launch, units, environment, revision and time to
the second. A record has no warnings, warm-ups or kernels, and a reference case becomes an ordinary
one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from compile_hud.db.records.imported import IMPORTED_TOOLCHAIN, stated_directions
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import CaseResult, Outcome, Run, RunDocument
from compile_hud.runner.interop.importers.case_evidence import ACCURACY, DERIVED

_WORDS: Mapping[Outcome, str] = {
    Outcome.OK: "pass",
    Outcome.SKIPPED: "pass_due_to_skip",
    Outcome.SAME_CODE: "pass_due_to_skip",
    Outcome.UNAVAILABLE: "pass_due_to_skip",
    Outcome.INACCURATE: "fail_accuracy",
    Outcome.FAILED: "fail_to_run",
    Outcome.TIMEOUT: "timeout",
    Outcome.OUT_OF_MEMORY: "OOM",
    Outcome.NODE_LOST: "lost",
}

# A 64-bit number has no more digits.
_MAX_DIGITS = 19


def to_v3(documents: Iterable[RunDocument]) -> Iterator[bytes]:
    """Yield the records of `documents`, the same for the same runs."""
    for document in documents:
        for result in document.results:
            for record in _records(document.run, result):
                yield f"{json.dumps(record, allow_nan=False)}\n".encode()


def _records(run: Run, result: CaseResult) -> Iterator[dict[str, Any]]:
    common = _common(run, result)
    metric_fields: dict[str, Any] = {"benchmark_values": [_WORDS[result.outcome]]}
    if result.reason:
        metric_fields["reason"] = result.reason
    yield {**common, "metric": {"name": ACCURACY, "extra_info": metric_fields}}
    stated = stated_directions(result)
    for item in result.measurements:
        # Derived numbers are derived again by the reader.
        if item.method == DERIVED:
            continue
        about = {"unit": item.unit}
        if known := METRICS.get(item.metric):
            about["direction"] = str(known.direction)
        elif direction := stated.get(item.metric):
            about["direction"] = str(direction)
        if len(item.launches) > 1:
            about["launches"] = json.dumps(list(item.launches))
        metric = {"name": item.metric, "benchmark_values": list(item.samples), "extra_info": about}
        yield {**common, "metric": metric}


def _common(run: Run, result: CaseResult) -> dict[str, Any]:
    case = result.case
    facts = {name: value for name, value in run.environment.items() if name != IMPORTED_TOOLCHAIN}
    repo, branch = _branch(run.toolchain)
    metadata = _imported_metadata(run)
    return {
        "timestamp": int(run.started_at.timestamp()),
        "schema_version": "v3",
        "name": run.suite,
        "repo": repo,
        "head_branch": branch,
        "head_sha": run.revision,
        "workflow_id": _number(metadata.get("workflow")),
        "run_attempt": _number(metadata.get("attempt")),
        "job_id": 0,
        "runners": [
            {
                "name": case.device,
                "type": run.machine,
                "extra_info": {
                    "environment": json.dumps(facts, sort_keys=True),
                    # A store that has the run recognises it by this id. A run imported from another
                    # store retains its id there.
                    "run": metadata.get("run") or run.id,
                },
            }
        ],
        "benchmark": {
            "name": run.suite,
            "mode": str(case.phase),
            "dtype": str(case.dtype),
            "extra_info": {
                "compile_mode": case.mode,
                "variant": case.variant,
                "backend": case.backend,
                "shape": case.shape,
                "device": case.device,
            },
        },
        "model": {
            "name": case.model,
            "type": case.family,
            "backend": case.backend,
            "origins": [case.family],
        },
    }


def _branch(toolchain: str) -> tuple[str, str]:
    """Return repository and branch of an imported toolchain; our own toolchain is a branch."""
    name = toolchain.removeprefix(IMPORTED_TOOLCHAIN).removeprefix(":")
    repo, is_both, branch = name.rpartition("@")
    return (repo, branch) if is_both else ("", name)


def _imported_metadata(run: Run) -> Mapping[str, Any]:
    """Return the facts of the file of an imported run, {} for our own."""
    about = run.environment.get(IMPORTED_TOOLCHAIN, {})
    return about if isinstance(about, dict) else {}


def _number(value: Any) -> int:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else 0
