"""The part of the kernels page that opens a trace file of the person at the page."""

from __future__ import annotations

from typing import Any

import streamlit as st

from compile_hud.app.auth import access
from compile_hud.app.ui.html import Cell, banner, caption, heading, key_values, two_columns
from compile_hud.app.views.kernels.breakdown import parts_bars, parts_table
from compile_hud.app.views.kernels.table_view import draw_table, row_id
from compile_hud.app.views.kernels.tables import find_kernel, kernel_facts, kernel_table
from compile_hud.app.views.kernels.trace_files import (
    MAX_UPLOAD_MB,
    TraceFile,
    TraceFileError,
    read_trace_file,
)
from compile_hud.db.shared.text import plural

TITLE = "Open a trace file"
_KEY, _ROWS, _READ = "trace-file", "trace-file-rows", "trace-file-content"
_HOW = "Kernels of any Chrome trace of torch.profiler. Nothing of the file is stored."
_REFUSED = "`hud kernels FILE` reads any trace. On this page only triagers may open one."


def show_trace_upload(*, is_explained: bool) -> None:
    """Draw the upload, and below it the kernels of the file that was sent.

    A person who may not send any sees nothing, or with `is_explained` the command and the role.
    """
    is_allowed = access.may_upload(access.present())
    if is_allowed or is_explained:
        st.html(heading(TITLE, level=2))
    if not is_allowed:
        if is_explained:
            st.html(caption(_REFUSED))
        return
    st.html(caption(f"{_HOW} At most {MAX_UPLOAD_MB} MB."))
    file = st.file_uploader(
        "Trace",
        type=["json", "gz"],
        key=_KEY,
        max_upload_size=MAX_UPLOAD_MB,
        label_visibility="collapsed",
    )
    if file is None:
        st.session_state.pop(_READ, None)
        return
    read = _read(file)
    if isinstance(read, str):
        st.html(banner(read))
    else:
        _show(read)


def _read(file: Any) -> TraceFile | str:
    """Return the trace, or the sentence that says why there is none; each file is read once."""
    known = st.session_state.get(_READ)
    if known is None or known[0] != file.file_id:
        with st.spinner("Reading the trace"):
            try:
                result: TraceFile | str = read_trace_file(file.name, file.getvalue())
            except TraceFileError as error:
                result = f"{error}."
        st.session_state[_READ] = known = (file.file_id, result)
    answer: TraceFile | str = known[1]
    return answer


def _show(trace: TraceFile) -> None:
    st.html(heading(f"Kernels of {trace.name}", level=2))
    profile = trace.profile
    facts = [
        ("device", Cell(text=trace.device or "a GPU without a name")),
        ("iterations", Cell(text=str(profile.num_iterations))),
    ]
    st.html(key_values(facts))
    st.html(two_columns(parts_bars(profile), parts_table(profile)))
    rows = kernel_table(trace.kernels)
    draw_table(rows, key=_ROWS, on_select="rerun")
    if trace.num_kernels > len(trace.kernels):
        st.html(
            caption(
                f"The {len(trace.kernels)} longest of {trace.num_kernels}"
                f" {plural(trace.num_kernels, 'row')}."
            )
        )
    selected = row_id(st.session_state.get(_ROWS, {}), rows.ids)
    if (kernel := find_kernel(trace.kernels, selected)) is not None:
        st.html(heading(kernel.label, level=3))
        st.html(key_values(kernel_facts(kernel)))
