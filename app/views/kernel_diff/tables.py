"""The headline, the table and one row of a kernel diff, as HTML and Markdown. Pure."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from compile_hud.app.components.evidence import difference_table
from compile_hud.app.components.table.columns import (
    DataTable,
    Link,
    LinkColumn,
    NumberColumn,
    TextColumn,
    VerdictColumn,
    data_table,
)
from compile_hud.app.ui.format import Scale, local_moment, microseconds, percent
from compile_hud.app.ui.html import (
    Cell,
    HtmlColumn,
    Note,
    key_values,
    long_table,
    metric_tiles,
    table,
)
from compile_hud.app.ui.theme import VERDICT_STYLES
from compile_hud.app.ui.urls import KernelDiffState, kernel_diff_url, kernels_url, run_url
from compile_hud.app.views.kernel_diff.records import DiffPage, DiffRow, DiffSide, class_words
from compile_hud.app.views.kernels.counters import counter_columns
from compile_hud.app.views.kernels.tables import (
    NUM_ORIGINS,
    ORIGIN_COLUMNS,
    launch_facts,
    module_text,
    origin_cells,
    value_text,
)
from compile_hud.db.records.kernels import Kernel, Origin
from compile_hud.db.records.results import Verdict
from compile_hud.db.shared.text import counted, one_line, shortened, signed_us, significant

SIDES = ("baseline", "candidate")
_MARKDOWN_ROWS = 10
_NUM_KERNELS = 12
_NAME_LENGTH, _TEXT_LENGTH = 120, 300
_MARKDOWN = re.compile(r"([\\`*_\[\]<|~])")
# Numbers of this scale add up, as the headline says.
_US = Scale(1e-6, "us")
_LABEL_WIDTH, _WHY_WIDTH = 300, 340
_COLUMNS = (
    NumberColumn(label="row", width=50),
    LinkColumn(
        label="kernel",
        help="opens the row: facts, origins, code of both sides",
        width=_LABEL_WIDTH,
        is_pinned=True,
    ),
    NumberColumn(
        label="contributes",
        help="candidate less baseline",
        scale=_US,
        unit="s",
        decimals=1,
        is_signed=True,
    ),
    VerdictColumn(label="beyond noise"),
    TextColumn(label="class"),
    NumberColumn(label="calls before", help="an iteration, baseline"),
    NumberColumn(label="calls now", help="an iteration, candidate"),
    NumberColumn(
        label="time before", help="an iteration, baseline", scale=_US, unit="s", decimals=1
    ),
    NumberColumn(label="time now", help="an iteration, candidate", scale=_US, unit="s", decimals=1),
    TextColumn(label="why", width=_WHY_WIDTH),
    TextColumn(label="matched by", help="what both sides have in common"),
)
_SIDE_COLUMNS = (
    HtmlColumn(label=""),
    HtmlColumn(label="run"),
    HtmlColumn(label="case"),
    HtmlColumn(label="revision"),
    HtmlColumn(label="toolchain", is_spare=True),
    HtmlColumn(label="machine", is_spare=True),
    HtmlColumn(label="device"),
    HtmlColumn(label="kernels", is_number=True),
)
_KERNEL_COLUMNS = (
    HtmlColumn(label="side"),
    HtmlColumn(label="name in the trace"),
    HtmlColumn(label="library"),
    HtmlColumn(label="calls", is_number=True),
    HtmlColumn(label="time (us)", title="an iteration", is_number=True),
    HtmlColumn(label="a call (us)", title="mean", is_number=True),
    HtmlColumn(label="fastest (us)", title="the fastest call", is_number=True),
    HtmlColumn(label="shapes", is_spare=True),
    HtmlColumn(label="module", is_spare=True),
)
_SUM_COLUMNS = (
    HtmlColumn(label="by"),
    HtmlColumn(label="name"),
    HtmlColumn(label="time before (us)", title="an iteration, baseline", is_number=True),
    HtmlColumn(label="time now (us)", title="an iteration, candidate", is_number=True),
    HtmlColumn(label="change (us)", title="candidate less baseline", is_number=True),
)
_ORIGIN_COLUMNS = (HtmlColumn(label="in"), *ORIGIN_COLUMNS)


def side_table(page: DiffPage) -> str:
    """Return the facts of the two results."""
    rows = [
        (Cell(text=name, style="quiet"), *_side_cells(side))
        for name, side in zip(SIDES, (page.baseline, page.candidate), strict=True)
    ]
    return table(_SIDE_COLUMNS, rows, label="sides")


def headline(page: DiffPage) -> str:
    """Return both times, their difference and its two parts, in microseconds that add up."""
    change = percent(100 * page.change_s / page.baseline_s) if page.baseline_s else ""
    num_changed = sum(row.verdict is not Verdict.UNCHANGED for row in page.rows)
    cards = (
        (f"baseline, {page.basis}", _tile(microseconds(page.baseline_s))),
        (f"candidate, {page.basis}", _tile(microseconds(page.candidate_s))),
        ("difference", _tile(signed_us(page.change_s), note=change)),
        (
            "explained",
            _tile(
                signed_us(page.explained_s),
                note=f"{num_changed} of {counted(len(page.rows), 'row')} changed beyond noise",
            ),
        ),
        ("unexplained", _tile(signed_us(page.unexplained_s), note=page.unexplained_text)),
    )
    return metric_tiles(cards)


def sum_table(page: DiffPage) -> Markup:
    """Return the changed sums by kind, operator and module, "" for none."""
    rows = [
        (
            Cell(text=item.property, style="quiet"),
            Cell(
                text=item.label,
                title="" if item.label == item.name else item.name,
                style="symbol",
            ),
            Cell(text=microseconds(item.baseline_s)),
            Cell(text=microseconds(item.candidate_s)),
            Cell(text=signed_us(item.candidate_s - item.baseline_s)),
        )
        for item in page.sums
    ]
    return table(_SUM_COLUMNS, rows, label="sums of kernels") if rows else Markup()


def environment_table(page: DiffPage) -> Markup:
    """Return the differences between the environments of both runs, "" for none."""
    return difference_table(page.environment, ends=SIDES, label="environment")


def classes_of(page: DiffPage) -> dict[str, int]:
    """Return the number of rows of each class, the class with the largest contribution first."""
    counts: dict[str, int] = {}
    for row in page.rows:
        counts[row.kind] = counts.get(row.kind, 0) + 1
    return counts


def diff_table(page: DiffPage, state: KernelDiffState) -> DataTable | None:
    """Return the rows that pass the filter of `state`, the largest first; None for none.

    A link opens its row, and closes the opened one.
    """
    rows = [row for row in page.rows if state.change in ("", row.kind)]
    if not rows:
        return None
    return data_table(_COLUMNS, [_cells(row, state) for row in rows], label="changes of kernels")


def row_facts(row: DiffRow) -> str:
    """Return the facts of one change."""
    pairs = [
        ("contributes", Cell(text=f"{signed_us(row.contribution_s)} us an iteration")),
        ("class", Cell(text=class_words(row.kind))),
        ("matched by", Cell(text=_matched(row))),
    ]
    if row.count_s is not None and row.time_s is not None:
        pairs.append(("by calls", Cell(text=f"{signed_us(row.count_s)} us")))
        pairs.append(("by the time of a call", Cell(text=f"{signed_us(row.time_s)} us")))
    return key_values(pairs)


def kernel_table(row: DiffRow) -> str:
    """Return the kernels of both sides of a row, "" if it has none."""
    kernels = [
        (name, kernel)
        for name, side in zip(SIDES, (row.baseline, row.candidate), strict=True)
        for kernel in side
    ]
    if not kernels:
        return ""
    counters = counter_columns([kernel for _, kernel in kernels])
    rows = [
        (*_kernel_cells(*item), *(Cell(text=_counter(column.values[index])) for column in counters))
        for index, item in enumerate(kernels)
    ]
    named = (HtmlColumn(label=item.label, title=item.help, is_number=True) for item in counters)
    return long_table(
        (*_KERNEL_COLUMNS, *named),
        rows,
        label="kernels of the row",
        num_shown=_NUM_KERNELS,
        rest="further kernels",
    )


def fact_table(row: DiffRow) -> Markup:
    """Return the differences of configuration and launch, "" for none."""
    return difference_table(differing_facts(row), ends=SIDES, label="configuration and launch")


def differing_facts(row: DiffRow) -> dict[str, tuple[str, str]]:
    """Return the differences of configuration and launch, by name as (baseline, candidate)."""
    before, after = _facts_of(row.baseline), _facts_of(row.candidate)
    names = dict.fromkeys((*before, *after))
    sides = {name: (before.get(name, "-"), after.get(name, "-")) for name in names}
    return {name: values for name, values in sides.items() if values[0] != values[1]}


def origin_table(row: DiffRow) -> str:
    """Return the nodes of the graph that either side computes, "" if none are recorded."""
    sides = [
        dict.fromkeys(origin for kernel in kernels for origin in kernel.origins)
        for kernels in (row.baseline, row.candidate)
    ]
    origins = list(dict.fromkeys((*sides[0], *sides[1])))
    if not origins:
        return ""
    rows = [
        (Cell(text=_side_of(origin, sides), style="quiet"), *origin_cells(origin))
        for origin in origins
    ]
    return long_table(
        _ORIGIN_COLUMNS, rows, label="origins", num_shown=NUM_ORIGINS, rest="further origins"
    )


def markdown(page: DiffPage) -> str:
    """Return the headline and the largest rows for an issue or a message."""
    lines = [
        f"{name}: run `{_code(side.run.id)}` ({_escaped(side.run.revision)}), `"
        f"{_code(side.case_key)}`"
        for name, side in zip(SIDES, (page.baseline, page.candidate), strict=True)
    ]
    lines[0] += "  "
    times = f"{microseconds(page.baseline_s)} -> {microseconds(page.candidate_s)}"
    change = f"{signed_us(page.change_s)} us an iteration"
    lines += [
        "",
        f"Of the {page.basis} ({times} us, {change}) the kernels explain"
        f" {signed_us(page.explained_s)} us.",
        *(["", _escaped(page.noise)] if page.noise else []),
        "",
        "| us | class | kernel | why |",
        "| ---: | --- | --- | --- |",
    ]
    changed = [row for row in page.rows if row.kind != "unchanged"]
    lines += [
        f"| {signed_us(row.contribution_s)} | {class_words(row.kind)} | `{_code(row.label)}`"
        f" | {_escaped(row.text)} |"
        for row in changed[:_MARKDOWN_ROWS]
    ]
    rest_s = page.change_s - math.fsum(row.contribution_s for row in changed[:_MARKDOWN_ROWS])
    if rest := _rest_words(page, has_rows=len(page.rows) > len(changed[:_MARKDOWN_ROWS])):
        lines.append(f"| {signed_us(rest_s)} | | {rest} | |")
    return "\n".join(lines) + "\n"


def _rest_words(page: DiffPage, *, has_rows: bool) -> str:
    words = ("the rest" if has_rows else "", "what is unexplained" if page.unexplained_s else "")
    return ", and ".join(filter(None, words))


def _tile(text: str, *, note: str = "") -> Cell:
    return Cell(text=f"{text} us", notes=(Note(text=note),) if note else ())


def _side_cells(side: DiffSide) -> tuple[Cell, ...]:
    run = side.run
    return (
        Cell(text=run.id, href=run_url(run.id), notes=(Note(text=local_moment(run.started_at)),)),
        Cell(
            text=side.case_key or "none yet",
            href=run_url(run.id, case_key=side.case_key) if side.case else "",
            style="wraps",
        ),
        Cell(text=run.revision, style="revision"),
        Cell(text=run.toolchain),
        Cell(text=run.machine),
        Cell(text=side.device or "-"),
        Cell(
            text="-" if side.num_kernels is None else str(side.num_kernels),
            href="" if side.num_kernels is None else kernels_url(run.id, case_key=side.case_key),
        ),
    )


def _cells(row: DiffRow, state: KernelDiffState) -> tuple[object, ...]:
    is_open = state.row == str(row.number)
    row_number = "" if is_open else str(row.number)
    href = kernel_diff_url(dataclasses.replace(state, row=row_number))
    return (
        row.number,
        Link(f"{row.label} (open)" if is_open else row.label, href),
        row.contribution_s,
        row.verdict if row.verdict in VERDICT_STYLES else None,
        class_words(row.kind),
        *(_num_calls(side) for side in (row.baseline, row.candidate)),
        row.before_s,
        row.after_s,
        row.text,
        _matched(row),
    )


def _kernel_cells(side: str, kernel: Kernel) -> tuple[Cell, ...]:
    return (
        Cell(text=side, style="quiet"),
        Cell(text=kernel.name, title=kernel.name, style="symbol"),
        Cell(text=kernel.library),
        Cell(text=significant(kernel.count)),
        Cell(text=microseconds(kernel.total_s)),
        Cell(text=microseconds(kernel.mean_s)),
        Cell(text=microseconds(kernel.min_s)),
        Cell(text=kernel.shapes, title=kernel.shapes, style="prose"),
        Cell(text=module_text(kernel) or "-", style="prose"),
    )


def _side_of(origin: Origin, sides: Sequence[Mapping[Origin, None]]) -> str:
    names = [name for name, side in zip(SIDES, sides, strict=True) if origin in side]
    return names[0] if len(names) == 1 else "both"


def _facts_of(kernels: Sequence[Kernel]) -> dict[str, str]:
    """Return the facts of the kernels of a side, each different value once."""
    by_name: dict[str, dict[str, None]] = {}
    for kernel in kernels:
        values = {
            "library": kernel.library,
            "device": kernel.device,
            "shapes": kernel.shapes,
            **kernel.config,
            **launch_facts(kernel),
        }
        for name, value in values.items():
            by_name.setdefault(name, {})[value_text(value)] = None
    return {name: _joined(values) for name, values in by_name.items()}


def _joined(texts: Iterable[str]) -> str:
    return shortened(", ".join(sorted(texts)), limit=_TEXT_LENGTH)


def _num_calls(kernels: Sequence[Kernel]) -> float | None:
    return math.fsum(kernel.count for kernel in kernels) if kernels else None


def _counter(value: float | None) -> str:
    return "-" if value is None else significant(value)


def _matched(row: DiffRow) -> str:
    return row.matched_by if row.baseline and row.candidate else "-"


def _code(text: str) -> str:
    """Return `text` in the form that a cell of a table allows between backticks."""
    return one_line(shortened(text, limit=_NAME_LENGTH)).replace("`", "'").replace("|", "\\|")


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", one_line(shortened(text, limit=_TEXT_LENGTH)))
