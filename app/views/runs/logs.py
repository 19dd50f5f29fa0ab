"""Logs on the page of a run: that of the running case, and those of failed cases."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from markupsafe import Markup

from compile_hud.app.components.page_frame import POLL_S
from compile_hud.app.ui.format import outcome_label
from compile_hud.app.ui.html import caption, collapsible, heading
from compile_hud.app.ui.scripts import script
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.views.runs.data import load_local_log, load_stored_log
from compile_hud.db.errors import RecordError, StoreError
from compile_hud.db.jobs.live_log import LIMIT_BYTES, LiveLog
from compile_hud.db.records.results import Outcome
from compile_hud.db.records.summaries import ResultSummary

# More logs at a time are not read; each is on the page of its case, too.
_MAX_LOGS = 20
_LOCAL_TEXT = f"From the worker on this machine, every {POLL_S:g} s."
_STORED_TEXT = "From the runner's last heartbeat, every 15 s."
_STYLES = """
pre { font-size: 12px; line-height: 1.4; margin: 0; padding: 8px 10px; max-height: 320px;
  overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; border-radius: 4px;
  border: 1px solid color-mix(in srgb, currentColor 14%, transparent); }
pre:focus-visible { outline: 2px solid currentColor; }
div { min-height: 1.4em; }
"""


@st.fragment(run_every=POLL_S)
def show_live_log(run_id: str) -> None:
    """Draw the last output of the running case, and append new output.

    The scroll position and the selection stay as they are; at its end the log follows.
    """
    log, where = _live_log(run_id)
    if log is None:
        return
    st.html(heading(f"Log of {log.case_key}", level=2))
    mount = st.components.v2.component(
        "hud_live_log",
        html=render("views.html", "live_log"),
        css=_STYLES,
        js=script("live_log"),
    )
    mount(
        key="live-log",
        data={"log": log.case_key, "lines": [[line.offset, line.text] for line in log.lines]},
    )
    st.html(caption(where))


def _live_log(run_id: str) -> tuple[LiveLog | None, str]:
    if here := load_local_log(run_id):
        return here, _LOCAL_TEXT
    try:
        return load_stored_log(run_id).value, _STORED_TEXT
    except (StoreError, RecordError):
        # The page itself reports an error of the store.
        return None, ""


def failed_logs(results: Sequence[ResultSummary]) -> Markup:
    """Return the end of the log of each case that did not end ok, behind a line each."""
    failed = [item for item in results if item.outcome is not Outcome.OK and item.log_tail.strip()]
    logs = [
        collapsible(
            f"{item.case.model} {item.case.variant}: {outcome_label(item.outcome)}",
            render("views.html", "log", log=item.log_tail.rstrip()[-LIMIT_BYTES:]),
        )
        for item in failed[:_MAX_LOGS]
    ]
    return render("views.html", "failed_logs", logs=logs, num_more=len(failed) - len(logs))
