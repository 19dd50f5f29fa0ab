"""The findings of a result, with the CPU seconds that they take."""

from __future__ import annotations

import time
from collections.abc import Sequence

from compile_hud.db.records.findings import Finding
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.runner.analysis.findings.documents import case_findings


def timed_findings(document: RunDocument, result: CaseResult) -> tuple[Sequence[Finding], float]:
    """Return the findings and the seconds of the second call: the first one imports libraries."""
    case_findings(document, result)
    began_s = time.process_time()
    return case_findings(document, result), time.process_time() - began_s
