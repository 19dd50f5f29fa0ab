"""The timeline of one iteration, as rows of a chart. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compile_hud.app.ui.format import Scale, quantity
from compile_hud.app.views.kernels.tables import kernel_id, shown
from compile_hud.db.records.kernels import Kernel, Profile
from compile_hud.db.shared.text import counted, plural

_ON_CPU = "cpu"
_GAPS_TEXT = " The gaps are longer than without profiling."


def strip_rows(
    profile: Profile, kernels: Sequence[Kernel], *, scale: Scale
) -> list[dict[str, Any]]:
    """Return a row for each slice of a known kernel, its times in `scale`."""
    return [
        {
            "start": item.start_s / scale.factor,
            "end": (item.start_s + item.duration_s) / scale.factor,
            "lane": lane_name(item.lane, device=kernel.device),
            "name": shown(kernel.label),
            "kind": kernel.kind,
            "kind_shown": shown(kernel.kind),
            "began": quantity(item.start_s, "s"),
            "took": quantity(item.duration_s, "s"),
            "shapes": shown(kernel.shapes),
            "kernel": kernel_id(kernel),
        }
        for item in profile.timeline
        if item.kernel < len(kernels)
        for kernel in (kernels[item.kernel],)
    ]


def lane_name(lane: int, *, device: str) -> str:
    """Return the label of a lane: threads of a CPU are counted, streams of a GPU have numbers."""
    return f"thread {lane + 1}" if device == _ON_CPU else f"stream {lane}"


def strip_text(profile: Profile) -> str:
    """Return a sentence that names the iteration and the share of it that is drawn."""
    drawn_s, num_spans = sum(item.duration_s for item in profile.timeline), len(profile.timeline)
    return (
        f"The {num_spans} longest {plural(num_spans, 'span')} of the median of"
        f" {counted(profile.num_iterations, 'iteration')}, profiled:"
        f" {quantity(drawn_s, 's')}.{_GAPS_TEXT if profile.is_slowed else ''}"
        " Scrolling zooms."
    )
