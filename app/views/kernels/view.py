"""The kernels of one case in one run: its time breakdown, down to the generated code."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from compile_hud.app.components.breadcrumbs import KERNELS, case_path, case_tabs, run_path
from compile_hud.app.components.page_frame import (
    banners,
    choose,
    draw_code,
    not_found_page,
    or_all,
    stale_note,
    state_page,
    type_in,
)
from compile_hud.app.components.table.view import draw_table as draw_cases
from compile_hud.app.data.commands import repro
from compile_hud.app.data.page_records import KernelsPage
from compile_hud.app.ui.code import HighlightedCode, code_of
from compile_hud.app.ui.html import (
    banner,
    caption,
    collapsible,
    command_line,
    heading,
    key_values,
    note,
    two_columns,
)
from compile_hud.app.ui.urls import KernelsState, parse_kernels
from compile_hud.app.views.kernels.breakdown import (
    header_facts,
    no_trace_text,
    parts_bars,
    parts_table,
)
from compile_hud.app.views.kernels.counters import hidden_counters
from compile_hud.app.views.kernels.data import kernel_script, load_kernels_page, load_source
from compile_hud.app.views.kernels.figures import (
    show_icicle,
    show_kernel_trend,
    show_roofline,
    show_timeline,
)
from compile_hud.app.views.kernels.table_view import draw_table, row_id
from compile_hud.app.views.kernels.tables import (
    case_table,
    counter_table,
    find_kernel,
    kernel_facts,
    kernel_table,
    matching,
    origin_table,
    repro_command,
)
from compile_hud.app.views.kernels.trace_upload import show_trace_upload
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.kernels import Kernel, KernelSource
from compile_hud.db.records.results import Outcome
from compile_hud.db.shared.text import counted_of

_READY_MADE = "Library kernel ({library}): no generated source."
_WITHOUT_CODE = "This result has no code of the kernel, so there is no script that runs it alone."
_HOW_TO_GET_THEM = (
    "Kernels are recorded after the samples of every case that ends ok. `[run] kernels = true` is"
    " the default.",
    "Reference cases and imported histories have none.",
    "`hud run` measures again.",
)


def show() -> None:
    """Draw the kernels page."""
    _show_stored()
    show_trace_upload(is_explained="case" not in st.query_params)


def _show_stored() -> None:
    state, problems = parse_kernels(st.query_params.to_dict())
    banners(problems)
    try:
        loaded = load_kernels_page(state.run, case_key=state.case)
    except NotFoundError as error:
        not_found_page("No such result", error)
        return
    stale_note(loaded)
    page = loaded.value
    if page.result is None:
        _show_cases(page)
    elif not page.kernels:
        _show_nothing(page)
    else:
        _show_result(page, state, version=loaded.version)


def _show_cases(page: KernelsPage) -> None:
    """Draw the cases of the run that have kernels."""
    if not page.cases:
        run = page.run
        text = f"Run {run.id} of {run.revision} ({run.toolchain}) has no kernels."
        state_page("No kernels", text=[text, *_HOW_TO_GET_THEM])
        return
    st.html(run_path(page.run.id))
    st.html(heading(f"Kernels of run {page.run.id}"))
    draw_cases(case_table(page), key=f"kernels-of-{page.run.id}")


def _show_nothing(page: KernelsPage) -> None:
    assert page.result is not None
    result = page.result
    why = "" if result.outcome is Outcome.OK else f" It ended {result.outcome}."
    text = [f"Run {page.run.id} has no kernels of {result.case.key}.{why}", *_HOW_TO_GET_THEM]
    state_page("No kernels", text=text)
    banners([warning.text for warning in result.warnings if "kernel" in warning.code])


def _show_result(page: KernelsPage, state: KernelsState, *, version: int) -> None:
    assert page.result is not None
    case = page.result.case
    run = page.run
    st.html(case_path(case, machine=run.machine, toolchain=run.toolchain, last="kernels"))
    st.html(heading(f"Kernels of {case.model} {case.variant}"))
    where = {"machine": run.machine, "toolchain": run.toolchain}
    st.html(case_tabs(case, run_id=run.id, current=KERNELS, profiled_run_id=run.id, **where))
    st.html(key_values(header_facts(page)))
    texts = (page.noise, page.profile_problem, no_trace_text(page))
    banners([text for text in texts if text])
    if page.profile is not None:
        st.html(heading("Where the time goes", level=2))
        bars = parts_bars(page.profile, is_noisy=bool(page.noise))
        st.html(two_columns(bars, parts_table(page.profile)))
    show_table(page, state)
    kernel = find_kernel(page.kernels, state.kernel)
    if kernel is not None:
        show_kernel(page, kernel)
    elif state.kernel:
        st.html(banner(f"This result has no kernel {state.kernel}. Choose one in the table."))
    show_icicle(page, version=version)
    show_timeline(page, version=version)
    show_roofline(page, version=version)


def show_table(page: KernelsPage, state: KernelsState) -> None:
    """Draw the table with its filters; selecting a row opens it."""
    st.html(heading("Kernels", level=2))
    with st.container(horizontal=True, gap="small"):
        type_in("Text in label, operators or module", name="text", value=state.text, width=320)
        _choose("Kind", "kind", [item.kind for item in page.kernels], state.kind)
        _choose("Library", "library", [item.library for item in page.kernels], state.library)
    kernels = matching(page.kernels, state)
    if not kernels:
        st.html(banner("No kernel fits these filters; take one of them back."))
        return
    # Rows are chosen by number: with other filters the number is another kernel's.
    key = f"kernels-{state.text}-{state.kind}-{state.library}"
    rows = kernel_table(kernels)
    _mark(state.kernel, key=key, ids=rows.ids)
    draw_table(rows, key=key, on_select=lambda: _open_row(key, rows.ids))
    if more := hidden_counters(kernels):
        st.html(caption(more))
    if len(kernels) < len(page.kernels):
        st.html(note(counted_of(len(kernels), len(page.kernels), "row")))


def show_kernel(page: KernelsPage, kernel: Kernel) -> None:
    """Draw one kernel: its facts, origin, code and the command that runs it by itself."""
    assert page.result is not None
    st.html(heading(kernel.label, level=2))
    st.html(key_values(kernel_facts(kernel)))
    show_kernel_trend(page, kernel)
    if origins := origin_table(kernel):
        st.html(heading("Where it comes from", level=3))
        st.html(origins)
    if counters := counter_table(kernel):
        st.html(collapsible("Counters", counters))
    if not kernel.source_hash:
        st.html(banner(_READY_MADE.format(library=kernel.library)))
        return
    source = load_source(kernel.source_hash).value
    if source is None:
        st.html(banner(_WITHOUT_CODE))
        return
    _show_script(page, kernel, source)
    st.html(heading("Generated code", level=3))
    draw_code(code_of([kernel], {source.hash: source}))


def _show_script(page: KernelsPage, kernel: Kernel, source: KernelSource) -> None:
    """Draw the script that runs a kernel by itself, or why there is none, with a remedy."""
    assert page.result is not None
    case = page.result.case
    st.html(heading("A script that runs it alone", level=3))
    script = kernel_script(page, kernel, source)
    if not script.text:
        st.html(banner(f"No script: {script.reason}."))
        st.html(command_line(repro(case, toolchain=page.run.toolchain)))
        return
    with st.expander("Copy the script"):
        draw_code(HighlightedCode(text=script.text, language="python"))
    st.html(caption("It needs torch and nothing of Compile HUD. This prints it as well:"))
    st.html(command_line(repro_command(page.run, case, kernel)))


def _choose(label: str, name: str, values: list[str], value: str) -> None:
    options = ["", *sorted(set(values))]
    choose(label, name=name, options=options, value=value, format_func=or_all, width=180)


def _mark(kernel: str, *, key: str, ids: Sequence[str]) -> None:
    """Select the row of the opened kernel, whether the table, a chart or a link opened it."""
    rows = [ids.index(kernel)] if kernel in ids else []
    if row_id(st.session_state.get(key, {}), ids) != (kernel if rows else ""):
        st.session_state[key] = {"selection": {"rows": rows}}


def _open_row(key: str, ids: Sequence[str]) -> None:
    if kernel := row_id(st.session_state[key], ids):
        st.query_params["kernel"] = kernel
    else:
        st.query_params.pop("kernel", None)
