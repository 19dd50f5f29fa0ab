"""The failure that an alert is about: its exception, as a person reads it first. Pure."""

from __future__ import annotations

import re

from compile_hud.app.ui.format import outcome_label
from compile_hud.app.ui.html import escaped
from compile_hud.db.records.summaries import ResultSummary

# `BackendCompilerFailed: ...` or `torch.OutOfMemoryError: ...`; other reasons are sentences.
_EXCEPTION = re.compile(r"(?P<name>[A-Za-z_][\w.]*): (?P<message>.+)", re.DOTALL)
_MAX_MESSAGE = 2000


def failure_html(result: ResultSummary) -> str:
    """Return the outcome, the exception and its message."""
    match = _EXCEPTION.fullmatch(result.reason.strip())
    name = match["name"] if match else outcome_label(result.outcome)
    message = match["message"] if match else result.reason
    outcome = f'<span class="note">{escaped(outcome_label(result.outcome))}</span>' if match else ""
    shown = f"<p>{escaped(message, limit=_MAX_MESSAGE)}</p>" if message.strip() else ""
    return f'<div class="hud-failure"><strong>{escaped(name)}</strong> {outcome}{shown}</div>'
