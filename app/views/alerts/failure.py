"""The failure that an alert is about: its exception, as a person reads it first. Pure."""

from __future__ import annotations

import re

from markupsafe import Markup

from compile_hud.app.ui.format import outcome_label
from compile_hud.app.ui.templates.environment import render
from compile_hud.db.records.summaries import ResultSummary

# `BackendCompilerFailed: ...` or `torch.OutOfMemoryError: ...`; other reasons are sentences.
_EXCEPTION = re.compile(r"(?P<name>[A-Za-z_][\w.]*): (?P<message>.+)", re.DOTALL)


def failure_html(result: ResultSummary) -> Markup:
    """Return the outcome, the exception and its message."""
    match = _EXCEPTION.fullmatch(result.reason.strip())
    outcome = outcome_label(result.outcome)
    message = match["message"] if match else result.reason
    return render(
        "views.html",
        "failure",
        name=match["name"] if match else outcome,
        outcome=outcome if match else "",
        message=message if message.strip() else "",
    )
