"""The table of kernels and one kernel in full, as rows, facts and words. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from compile_hud.app.components.table.columns import (
    DataTable,
    Link,
    LinkColumn,
    NumberColumn,
    TextColumn,
    data_table,
)
from compile_hud.app.data.page_records import KernelsPage
from compile_hud.app.ui.format import column_scale, quantity, roofline_text
from compile_hud.app.ui.html import Cell, HtmlColumn, long_table, table
from compile_hud.app.ui.urls import KernelsState, kernel_url_id, kernels_url
from compile_hud.app.views.kernels.counters import counter_columns
from compile_hud.db.records.kernel_counters import COUNTERS
from compile_hud.db.records.kernels import (
    CALL_LINES,
    MODULES,
    Kernel,
    Origin,
    call_lines_of,
    modules_of,
)
from compile_hud.db.records.results import Case, Run
from compile_hud.db.shared.text import printable, shortened, significant

# Names and shapes of a hostile trace are 10 kB long; whole ones are in `hud kernels --json`.
_TEXT_LIMIT = 300
_ID_LENGTH = 12
_NAME_LIMIT = 60
_MAX_NAMES = 6
# The rest is behind a fold.
NUM_ORIGINS = 8
# Launch facts leave these out: single calls have arguments, and the others have tables of their
# own, or are the lines of origins.
_NOT_LAUNCH = ("arguments", CALL_LINES, COUNTERS, MODULES)
# The zoo's wrapper of a library model has it under this name, which adds nothing to a module's
# path.
_WRAPPER = "inner"
ORIGIN_COLUMNS = (
    HtmlColumn(label="node"),
    HtmlColumn(label="operator"),
    HtmlColumn(label="module"),
    HtmlColumn(label="where"),
    HtmlColumn(label="code"),
)


# The key of a case is shown whole.
_CASE_WIDTH = 400
_CASE_COLUMNS = (
    LinkColumn(label="case", help="opens its kernels", width=_CASE_WIDTH, is_pinned=True),
    NumberColumn(label="kernels", help="rows of the table of kernels"),
    NumberColumn(label="calls", help="per iteration", decimals=0),
    NumberColumn(label="kernel time", help="per iteration", unit="s"),
    TextColumn(label="longest kernel"),
    NumberColumn(label="share of it", help="the longest kernel, of the kernel time", unit="share"),
)


@dataclass(frozen=True, slots=True)
class KernelNumber:
    """A column of the table of kernels that has numbers: its key, and its heading with unit."""

    key: str
    label: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsTable:
    """The table of kernels, the meaning of its number columns, and the id of each row."""

    frame: pd.DataFrame
    numbers: tuple[KernelNumber, ...]
    ids: tuple[str, ...]


def case_table(page: KernelsPage) -> DataTable:
    """Return a row for each case of the run that has kernels; its link opens them."""
    rows = [
        (
            Link(case.key, kernels_url(page.run.id, case_key=case.key)),
            totals.num_kernels,
            totals.num_calls,
            totals.total_s,
            totals.longest,
            totals.longest_s / totals.total_s if totals.total_s else None,
        )
        for case, totals in page.cases
    ]
    return data_table(_CASE_COLUMNS, rows, label="cases with kernels")


def kernel_id(kernel: Kernel) -> str:
    """Return the name of a kernel in a URL, the same for the same kernel of another result."""
    return kernel_url_id(kernel.name, kernel.library, kernel.shapes, kernel.source_hash)


def find_kernel(kernels: Sequence[Kernel], requested: str) -> Kernel | None:
    """Return the kernel with this id in a URL, else the first with this name or label."""
    ids = (kernel for kernel in kernels if kernel_id(kernel) == requested)
    names = (kernel for kernel in kernels if requested in (kernel.name, kernel.label))
    return next(ids, None) or next(names, None)


def matching(kernels: Sequence[Kernel], state: KernelsState) -> list[Kernel]:
    """Return the kernels that pass the filters; the text is searched in label, operators and
    module.
    """
    text = state.text.casefold().strip()
    return [
        kernel
        for kernel in kernels
        if state.kind in ("", kernel.kind)
        and state.library in ("", kernel.library)
        and (not text or text in _searched(kernel))
    ]


def kernel_table(kernels: Sequence[Kernel]) -> KernelsTable:
    """Return a row for each kernel, each number in one unit a column; None is not known."""
    columns: dict[str, list[Any]] = {
        "label": [shown(kernel.label) for kernel in kernels],
        "kind": [shown(kernel.kind) for kernel in kernels],
        "library": [shown(kernel.library) for kernel in kernels],
        "calls": [kernel.count for kernel in kernels],
        "share": [100 * kernel.share for kernel in kernels],
    }
    numbers = [
        KernelNumber("calls", "calls", "calls an iteration"),
        KernelNumber("share", "share (%)", "part of the profiled iteration"),
    ]
    for key, words, unit, read in _SCALED:
        values = [read(kernel) for kernel in kernels]
        scale = column_scale(unit, [value for value in values if value is not None])
        columns[key] = [None if value is None else value / scale.factor for value in values]
        numbers.append(KernelNumber(key, f"{_HEADINGS[key]} ({scale.unit or unit})", words))
    columns |= {
        "operators": [shown(", ".join(kernel.operators)) for kernel in kernels],
        "module": [shown(module_text(kernel)) for kernel in kernels],
        "shapes": [shown(kernel.shapes) for kernel in kernels],
        "config": [shown(mapping_text(kernel.config)) for kernel in kernels],
        "launch": [shown(launch_text(kernel)) for kernel in kernels],
    }
    order = list(_ORDER)
    for index, counter in enumerate(counter_columns(kernels)):
        key = f"counter_{index}"
        columns[key] = list(counter.values)
        numbers.append(KernelNumber(key, counter.label, counter.help))
        order.insert(order.index(_BEFORE_TEXTS), key)
    frame = pd.DataFrame({name: columns[name] for name in order})
    ids = tuple(kernel_id(kernel) for kernel in kernels)
    return KernelsTable(frame=frame, numbers=tuple(numbers), ids=ids)


def kernel_facts(kernel: Kernel) -> list[tuple[str, Cell]]:
    """Return the recorded facts of one kernel."""
    pairs: list[tuple[str, str]] = [
        ("name in the trace", kernel.name),
        ("kind", kernel.kind),
        ("library", kernel.library),
        ("calls an iteration", significant(kernel.count)),
        ("time an iteration", quantity(kernel.total_s, "s")),
        ("share", quantity(kernel.share, "share")),
        ("mean a call", quantity(kernel.mean_s, "s")),
        ("fastest call", quantity(kernel.min_s, "s")),
        ("memory traffic", _quantity(kernel.num_bytes, "B")),
        ("memory throughput", _quantity(kernel.bytes_per_s, "B/s")),
        ("operations", _quantity(kernel.flops, "FLOP")),
        ("compute", _quantity(kernel.flops_per_s, "FLOP/s")),
        ("of the measured roofline", _roofline(kernel.roofline)),
        ("operators", ", ".join(kernel.operators)),
        ("module", module_text(kernel)),
        ("in each module", _modules_text(kernel)),
        ("called at", _lines_text(kernel)),
        ("shapes", kernel.shapes),
        ("autotune configuration", mapping_text(kernel.config)),
        ("launch", launch_text(kernel)),
        ("code", kernel.source_hash[:_ID_LENGTH]),
    ]
    return [(name, Cell(text=text, title=text)) for name, text in pairs if text]


def origin_table(kernel: Kernel) -> str:
    """Return the nodes of the graph that a kernel computes, "" if none are recorded."""
    if not kernel.origins:
        return ""
    rows = [origin_cells(origin) for origin in kernel.origins]
    return long_table(
        ORIGIN_COLUMNS, rows, label="origins", num_shown=NUM_ORIGINS, rest="further origins"
    )


def origin_cells(origin: Origin) -> tuple[Cell, ...]:
    """Return the cells of a node of the graph for ORIGIN_COLUMNS."""
    line = f":{origin.line}" if origin.line else ""
    return (
        Cell(text=origin.node),
        Cell(text=origin.target or "-"),
        Cell(text=without_wrapper(origin.module) or "-", style="prose"),
        Cell(text=f"{origin.file}{line}" if origin.file else "-", style="prose"),
        Cell(text=origin.code or "-", style="prose whole"),
    )


def counter_table(kernel: Kernel) -> Markup:
    """Return the readings of other profilers for a kernel, "" for none."""
    counters = kernel.launch.get(COUNTERS)
    if not isinstance(counters, Mapping) or not counters:
        return Markup()
    columns = (
        HtmlColumn(label="counter"),
        HtmlColumn(label="value", is_number=True),
        HtmlColumn(label="unit"),
    )
    rows = []
    for name, reading in counters.items():
        fields = reading if isinstance(reading, Mapping) else {"value": reading}
        value = fields.get("value", "")
        rows.append(
            (Cell(text=str(name)), Cell(text=str(value)), Cell(text=str(fields.get("unit", ""))))
        )
    return table(columns, rows, label="counters of the kernel")


def repro_command(run: Run, case: Case, kernel: Kernel) -> str:
    """Return the command that prints the script which runs only `kernel`."""
    words = ["hud", "kernels", run.id, case.key, "--repro", kernel.name]
    return printable(shlex.join(words))


def mapping_text(values: Mapping[str, Any]) -> str:
    """Return a mapping as `name value, name value`."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in values.items())


def value_text(value: Any) -> str:
    """Return a value of a configuration or a launch; a few numbers are `8x1x1`."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) < 5 and all(isinstance(item, int) for item in value):
        return "x".join(map(str, value))
    return json.dumps(value, sort_keys=True)


def launch_text(kernel: Kernel) -> str:
    """Return the launch parameters: grid, block, registers and the like."""
    return mapping_text(launch_facts(kernel))


def launch_facts(kernel: Kernel) -> dict[str, Any]:
    """Return the parameters that all launches of a kernel share, by name."""
    return {name: value for name, value in kernel.launch.items() if name not in _NOT_LAUNCH}


def uncounted_text(kernels: Sequence[Kernel]) -> str:
    """Return a sentence that names the kernels without a position under the roofline."""
    names = list(dict.fromkeys(kernel.label for kernel in kernels))
    text = ", ".join(shortened(name, limit=_NAME_LIMIT) for name in names[:_MAX_NAMES])
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    share = quantity(sum(kernel.share for kernel in kernels), "share")
    return (
        "Not drawn, since a call computes nothing, or its bytes or operations are unknown:"
        f" {text}{more}; together {share} of an iteration."
    )


def shown(text: str) -> str:
    """Return `text` cut to the length of a cell, a label or a tooltip, without odd characters."""
    return printable(shortened(text, limit=_TEXT_LIMIT))


def _searched(kernel: Kernel) -> str:
    modules = [module.path for module in modules_of(kernel)]
    return "\n".join((kernel.label, *kernel.operators, kernel.module, *modules)).casefold()


def without_wrapper(path: str) -> str:
    """Return the path of a module in the library's model, without the zoo's wrapper."""
    return "" if path == _WRAPPER else path.removeprefix(f"{_WRAPPER}.")


def module_text(kernel: Kernel) -> str:
    """Return the module of a kernel; of several their number and their common location."""
    modules = modules_of(kernel)
    path = without_wrapper(kernel.module)
    return f"{len(modules)} in {path or 'the model'}" if modules else path


def _modules_text(kernel: Kernel) -> str:
    """Return the modules of a kernel with calls and time, the longest first."""
    modules = modules_of(kernel)
    texts = [
        f"{without_wrapper(module.path) or 'none'} ({significant(module.count)} calls,"
        f" {quantity(module.total_s, 's')})"
        for module in modules[:_MAX_NAMES]
    ]
    more = [f"{len(modules) - _MAX_NAMES} more"] if len(modules) > _MAX_NAMES else []
    return ", ".join(texts + more)


def _lines_text(kernel: Kernel) -> str:
    """Return the user's lines that call a kernel, where they were recorded."""
    lines = list(dict.fromkeys(call_lines_of(kernel).values()))
    more = [f"{len(lines) - _MAX_NAMES} more"] if len(lines) > _MAX_NAMES else []
    return ", ".join(lines[:_MAX_NAMES] + more)


def _roofline(share: float | None) -> str:
    return "" if share is None else roofline_text(share)


def _quantity(value: float | None, unit: str) -> str:
    return "" if value is None else quantity(value, unit)


_Read = Callable[[Kernel], float | None]
_HEADINGS = {
    "time": "time",
    "mean": "mean",
    "min": "min",
    "bandwidth": "memory throughput",
    "rate": "compute",
    "roofline": "roofline",
}
# Key, meaning, unit, and the function that reads the number.
_SCALED: tuple[tuple[str, str, str, _Read], ...] = (
    ("time", "time an iteration", "s", lambda kernel: kernel.total_s),
    ("mean", "mean time of a call", "s", lambda kernel: kernel.mean_s),
    ("min", "time of the fastest call", "s", lambda kernel: kernel.min_s),
    ("bandwidth", "bytes of a call over its mean time", "B/s", lambda kernel: kernel.bytes_per_s),
    (
        "rate",
        "operations of a call over its mean time; of generated kernels an estimate",
        "FLOP/s",
        lambda kernel: kernel.flops_per_s,
    ),
    (
        "roofline",
        "part of the measured peak; above 100 % the data were in a cache",
        "share",
        lambda kernel: kernel.roofline,
    ),
)
# Counters precede the columns without numbers.
_BEFORE_TEXTS = "operators"
_ORDER = (
    "label",
    "kind",
    "library",
    "calls",
    "time",
    "share",
    "mean",
    "min",
    "bandwidth",
    "rate",
    "roofline",
    "operators",
    "module",
    "shapes",
    "config",
    "launch",
)
