"""Read the kernels of a case, their trends, their generated code and their traces."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.page_records import KernelsPage, Loaded
from compile_hud.app.data.store import StoreVersion, store_url
from compile_hud.app.ui.code import Script
from compile_hud.db.errors import NotFoundError, RecordError
from compile_hud.db.queries.kernels import (
    load_kernel_points,
    load_kernel_totals,
    load_kernels,
    load_sources,
)
from compile_hud.db.queries.results import load_result_summaries
from compile_hud.db.queries.runs import load_run
from compile_hud.db.records.kernels import (
    Kernel,
    KernelPoint,
    KernelSource,
    Profile,
    profile_of,
    with_latency_shares,
)
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.shared.text import printable
from compile_hud.db.shared.trace_paths import (
    PERFETTO_URL,
    PERFETTO_VARIABLE,
    TRACES_VARIABLE,
    find_trace,
    is_web_address,
    traces_folder,
)
from compile_hud.runner.analysis.errors import NoKernelScript
from compile_hud.runner.analysis.kernels.noise import result_noise
from compile_hud.runner.analysis.kernels.standalone_script import script_of, title_of


def trace_path(result_id: str) -> Path | None:
    """Return the stored trace of a result, None without one; never a file outside the folder."""
    return find_trace(_traces_folder(), result_id)


def perfetto_address() -> str:
    """Return the address of the Perfetto UI that traces are handed to."""
    address = os.environ.get(PERFETTO_VARIABLE, "")
    return address if is_web_address(address) else PERFETTO_URL


def load_kernels_page(run_id: str, *, case_key: str) -> Loaded[KernelsPage]:
    """Return the kernels of a case in a run; an empty id means the latest run.

    An empty case means none. Raises NotFoundError when there is no such run, or no such case in it.
    """
    loaded = _kernels_page(run_id or "latest", case_key)
    page = loaded.value
    # The cache is bypassed: a trace can be removed while nothing is written to the store.
    has_trace = page.result is not None and trace_path(page.result.id) is not None
    return dataclasses.replace(loaded, value=dataclasses.replace(page, has_trace=has_trace))


def load_kernel_trend(case_key: str, kernel: Kernel) -> Loaded[tuple[KernelPoint, ...]]:
    """Return `kernel` in each run of a case that has one of its label, library and shapes."""
    return _kernel_trend(case_key, kernel.label, kernel.library, kernel.shapes)


@cached_read
def load_source(at: StoreVersion, source_hash: str) -> KernelSource | None:
    """Return the generated code with this hash, None where the store has none."""
    return load_sources(at.store, [source_hash]).get(source_hash)


def kernel_script(page: KernelsPage, kernel: Kernel, source: KernelSource) -> Script:
    """Return the script that runs only `kernel` of `page`, or the reason why there is none."""
    assert page.result is not None
    title = title_of(kernel, run=page.run, case=page.result.case)
    try:
        text = script_of(kernel, source, title=title)
    except NoKernelScript as error:
        return Script(reason=str(error))
    return Script(text=printable(text, allowed="\n\t"))


def _traces_folder() -> Path | None:
    named = os.environ.get(TRACES_VARIABLE)
    return traces_folder(store_url(), named=Path(named) if named else None)


@cached_read
def _kernels_page(at: StoreVersion, run_id: str, case_key: str) -> KernelsPage:
    store = at.store
    run = load_run(store, run_id)
    results = load_result_summaries(store, run.id)
    if not case_key:
        totals = load_kernel_totals(store, run.id)
        cases = tuple((item.case, totals[item.id]) for item in results if item.id in totals)
        return KernelsPage(run=run, result=None, cases=cases)
    result = next((item for item in results if item.case.key == case_key), None)
    if result is None:
        raise NotFoundError(f"run {run.id} has no result of case {case_key!r}")
    profile, problem = _profile(result)
    kernels = with_latency_shares(load_kernels(store, result.id), profile)
    return KernelsPage(
        run=run,
        result=result,
        kernels=kernels,
        profile=profile,
        profile_problem=problem,
        noise=result_noise(result.warnings, profile=profile, kernels=kernels),
        has_traces=_traces_folder() is not None,
    )


def _profile(result: ResultSummary) -> tuple[Profile | None, str]:
    try:
        return profile_of(result.details), ""
    except RecordError as error:
        return None, f"The profile of this result cannot be read: {error}."


@cached_read
def _kernel_trend(
    at: StoreVersion, case_key: str, label: str, library: str, shapes: str
) -> tuple[KernelPoint, ...]:
    return load_kernel_points(at.store, case_key, label=label, library=library, shapes=shapes)
