"""The time breakdown of an iteration, as bars, numbers and sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from compile_hud.app.data.page_records import KernelsPage
from compile_hud.app.ui.format import quantity, scale_for
from compile_hud.app.ui.html import Bar, Cell, HtmlColumn, Note, Part, note, stack, table
from compile_hud.app.ui.theme import known_kind
from compile_hud.app.ui.urls import perfetto_url, run_url, trace_url
from compile_hud.db.records.kernels import IDLE, Kernel, Profile
from compile_hud.db.shared.text import counted, plain, significant

PROFILED, LATENCY, REMAINDER = "profiled", "latency", "remainder"
ADDED = "idle that recording adds"
# Time without a kernel stands at the end of the bar.
_RESTS = ("dispatch", "python", IDLE)
_HATCHED = "p3"
_PARTS_TEXT = "The parts say where the time goes, not how long it is."
RETENTION_TEXT = (
    "[traces] nights and max_size in hud.toml limit traces. Measure the case again for a new one."
)


def kind_style(kind: str) -> str:
    """Return the class of theme.py for a kind; that of `other` for an unknown one."""
    return f"k-{known_kind(kind)}"


def ordered_parts(profile: Profile) -> list[tuple[str, float]]:
    """Return the parts, the longest first, and at the end the time without a kernel."""
    return sorted(
        profile.components_without_profiler.items(),
        key=lambda part: (
            _RESTS.index(part[0]) + 1 if part[0] in _RESTS else 0,
            -part[1],
        ),
    )


def parts_bars(profile: Profile, *, is_noisy: bool = False) -> Markup:
    """Return the profiled iteration above the sampled latency, and the cost of profiling.

    If recording slowed the host, the latency is above, divided into the parts.
    """
    bars = stack(_bars(profile), unit="s", label="where the time of an iteration goes")
    return bars + Markup().join(map(note, profiler_texts(profile, is_noisy=is_noisy)))


def _bars(profile: Profile) -> list[Bar]:
    profiled = [
        Part(name=name, size=size_s, style=kind_style(name))
        for name, size_s in ordered_parts(profile)
    ]
    if profile.is_slowed:
        added_s = profile.components[IDLE] - profile.components_without_profiler[IDLE]
        added = Part(name=ADDED, size=added_s, style=_HATCHED)
        return [
            Bar(name=LATENCY, parts=tuple(profiled), whole=profile.latency_s),
            Bar(name=PROFILED, parts=(*profiled, added), whole=profile.iteration_s),
        ]
    bars = [Bar(name=PROFILED, parts=tuple(profiled))]
    latency_s, remainder_s = profile.latency_s, profile.remainder_s
    if latency_s is not None and remainder_s is not None:
        rest = Part(name=REMAINDER, size=abs(remainder_s), style=_HATCHED)
        sampled = [Part(name=LATENCY, size=latency_s, style="p1")]
        if remainder_s > 0:
            bars = [Bar(name=PROFILED, parts=(*profiled, rest), whole=profile.iteration_s)]
        else:
            sampled.append(rest)
        bars.append(Bar(name=LATENCY, parts=tuple(sampled), whole=latency_s))
    return bars


def parts_table(profile: Profile) -> Markup:
    """Return the numbers of the bars; the shares are of all parts together."""
    scale = scale_for("s", [profile.iteration_s])
    whole_s = math.fsum(profile.components_without_profiler.values())
    rows = [
        _part_row(name, scale.number(part_s), part_s / whole_s if whole_s else None)
        for name, part_s in ordered_parts(profile)
    ]
    rows += [_part_row(name, scale.number(time_s), None) for name, time_s in profile.whole_times()]
    columns = (
        HtmlColumn(label="part"),
        HtmlColumn(label=f"time ({scale.unit})", is_number=True),
        HtmlColumn(label="share", title="of all parts together", is_number=True),
    )
    return table(columns, rows, label="parts of an iteration")


def profiler_texts(profile: Profile, *, is_noisy: bool = False) -> tuple[str, ...]:
    """Return sentences on the cost of the profiler, as far as it is known and undisturbed."""
    whole = quantity(profile.iteration_s, "s")
    if profile.latency_s is None or profile.remainder_s is None:
        return (f"An iteration took {whole} under the profiler; its latency was not sampled.",)
    latency = quantity(profile.latency_s, "s")
    began = f"An iteration took {whole} under the profiler and {latency} (median) without it."
    if profile.remainder_s < 0:
        share = -100 * profile.remainder_s / profile.latency_s if profile.latency_s else 0.0
        cost = quantity(-profile.remainder_s, "s")
        return (
            began,
            f"The remainder, {cost} ({significant(share, digits=2)} % of the latency), is the cost"
            f" of profiling{' and of disturbance' if is_noisy else ''}.",
            _idle_text(profile) if profile.is_slowed else _PARTS_TEXT,
        )
    return (
        began,
        "The cost of profiling is below the scatter of iterations, and no part explains the"
        f" remainder of {quantity(profile.remainder_s, 's')}.",
    )


def _idle_text(profile: Profile) -> str:
    recorded, left = (
        quantity(parts[IDLE], "s")
        for parts in (profile.components, profile.components_without_profiler)
    )
    return (
        "Recording slows the host, so its cost is gaps: the GPU was idle for"
        f" {recorded} under the profiler, and the latency has room for {left}."
    )


def header_facts(page: KernelsPage) -> list[tuple[str, Cell]]:
    """Return the facts of the result, of the profiled time and of the trace."""
    result, run = page.result, page.run
    assert result is not None
    case = Cell(text=result.case.key, href=run_url(run.id, case_key=result.case.key))
    pairs = [
        ("case", case),
        ("run", Cell(text=run.id, href=run_url(run.id))),
        ("revision", Cell(text=run.revision)),
        ("kernels", Cell(text=_count_text(page.kernels))),
    ]
    profile = page.profile
    if profile is not None:
        pairs.append(("profiled", Cell(text=counted(profile.num_iterations, "iteration"))))
        if profile.busy is not None:
            pairs.append(("device", _device_cell(profile)))
        if profile.overlap_s:
            overlap = quantity(profile.overlap_s, "s")
            pairs.append(("overlap", Cell(text=f"{overlap} parallel to other kernels")))
    if page.has_trace:
        pairs.append(("trace", Cell(text="Open in Perfetto", href=perfetto_url(result.id))))
        pairs.append(("file", Cell(text="Download the trace", href=trace_url(result.id))))
    return pairs


def _device_cell(profile: Profile) -> Cell:
    replay = "replayed as a CUDA graph" if profile.is_graph_replay else "launched one by one"
    unprofiled, recorded = profile.busy_without_profiler, profile.busy
    assert unprofiled is not None
    assert recorded is not None
    note = Note(text=f"{quantity(recorded, 'share')} under the profiler")
    return Cell(
        text=f"busy {quantity(unprofiled, 'share')}, {replay}",
        notes=(note,) if profile.is_slowed else (),
    )


def no_trace_text(page: KernelsPage) -> str:
    """Return the reason why a profiled result has no trace, with a remedy; else ""."""
    if page.has_trace or page.profile is None:
        return ""
    if not page.has_traces:
        return (
            "No trace is stored, since this store has no folder for traces. Set one that runners"
            " and dashboard share: [traces] folder in hud.toml."
        )
    if not page.profile.trace:
        return "This result has no trace: it was stored without one, or the disk was full."
    return f"The trace of this result is gone. {RETENTION_TEXT}"


def _count_text(kernels: Sequence[Kernel]) -> str:
    # Operator time outside of kernels has rows, but is no kernel.
    counts = [kernel.count for kernel in kernels if not kernel.is_dispatch]
    return f"{len(counts)}, {plain(sum(counts))} calls an iteration"


def _part_row(name: str, number: str, share: float | None) -> tuple[Cell, Cell, Cell]:
    return (
        Cell(text=name),
        Cell(text=number),
        Cell(text="" if share is None else quantity(share, "share")),
    )
