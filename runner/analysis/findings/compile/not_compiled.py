"""not-compiled: Dynamo compiled nothing of a function, or gave up on it.

A break in a loop is no graph break: Dynamo runs the function eagerly as a whole. No measurement
says how much compiling it would save.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compile_hud.db.records.findings import Exhibit, Location
from compile_hud.db.shared.text import shortened
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

FALLBACK, SKIPPED, LIMIT = "mode-fallback", "frame-not-compiled", "recompile-limit"
_AT = re.compile(r"\bat (\S+:\d+)")
_MAX_TEXT = 240
_LIMIT_REMEDY = (
    "keep what the guard names constant, or in a tensor: Dynamo then compiles the function once"
)


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the functions that run eagerly instead of compiled, as one finding."""
    if case.is_eager:
        return
    # Without a GPU, other modes fall back to `default`, which is compiled.
    is_fallback = case.result.effective_mode == "eager"
    codes = (LIMIT, FALLBACK, SKIPPED) if is_fallback else (LIMIT, SKIPPED)
    known = {code: text for code in codes if (text := case.warning_text(code))}
    if not known:
        return
    code, text = next(iter(known.items()))
    reason = text.partition("fell back to eager: ")[2] or text
    line = _AT.search(text)
    yield Draft(
        text=shortened(reason, limit=_MAX_TEXT),
        where=Location(line=line.group(1)) if line else Location(),
        remedy=_LIMIT_REMEDY if code == LIMIT else "",
        evidence=tuple(Exhibit(kind="warning", name=name) for name in known),
    )


KIND = FindingKind(
    code="not-compiled",
    meaning="Dynamo compiled nothing of a function, or gave up on it: its calls run eagerly.",
    remedy="move the call that stopped Dynamo out of the loop or function;"
    " fullgraph=True raises its traceback",
    source="compiler warnings",
    rule=find,
    min_share=None,
)
