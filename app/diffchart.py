"""The waterfall of a kernel diff: what each change contributes, from the largest on. Pure.

It begins at no difference and ends at the difference of the two latencies. Colour says the verdict,
the sign stands beside each bar.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from app.charts import Row, chart_of, finished, verdict_colour
from app.diffpage import DiffPage, DiffRow
from app.format import signed_us
from app.theme import NEUTRAL
from db.records import Verdict
from db.text import one_line, shortened

# More bars than fit on a screen say no more than their sum.
MAX_BARS = 14
UNEXPLAINED, DIFFERENCE = "unexplained", "difference"
_BAR_PX, _AXIS_PX = 22, 56
_NAME_LENGTH = 44
_WORDS = {
    Verdict.REGRESSION: "slower",
    Verdict.IMPROVEMENT: "faster",
    Verdict.UNCHANGED: "within noise",
}


def waterfall_rows(page: DiffPage) -> list[dict[str, Any]]:
    """Return the bars from top to bottom, in microseconds an iteration.

    The parts of the profile have bars of their own; of the kernels the largest have, the rest is
    one bar. Then comes what is unexplained, and last the whole difference, which begins at 0.
    """
    kernels = [row for row in page.rows if not row.is_part]
    shown, rest = kernels[:MAX_BARS], kernels[MAX_BARS:]
    bars = [_bar(row.number, row.label, row.contribution_s, row=row) for row in shown]
    if rest:
        rest_s = math.fsum(row.contribution_s for row in rest)
        name = f"{len(rest)} other kernel{'s' if len(rest) > 1 else ''}"
        bars.append(_bar(None, name, rest_s, why="each contributes less"))
    bars += [
        _bar(row.number, row.label, row.contribution_s, row=row) for row in page.rows if row.is_part
    ]
    bars.append(_bar(None, UNEXPLAINED, page.unexplained_s, why=page.unexplained_text))
    place = 0.0
    for bar in bars:
        bar["start"], place = place, place + bar["size"]
        bar["end"] = place
        bar["right"] = max(bar["start"], place)
    whole = _bar(None, DIFFERENCE, page.change_s, why=f"of the {page.basis}")
    whole |= {"start": 0.0, "end": whole["size"], "right": max(0.0, whole["size"])}
    return [*bars, whole]


def waterfall_spec(bars: Sequence[Row]) -> dict[str, Any]:
    """Return the chart of the rows that `waterfall_rows` gives."""
    ends = [0.0, *(bar["end"] for bar in bars)]
    margin = 0.14 * (max(ends) - min(ends)) or 1.0
    scale = alt.Scale(domain=[min(ends) - margin, max(ends) + margin], nice=False, zero=False)
    order = [bar["name"] for bar in bars]
    title = "us an iteration, candidate less baseline"
    axis = alt.Axis(labelLimit=300, labelOverlap=False, ticks=False, domain=False)
    base = chart_of(bars).encode(
        y=alt.Y("name:N", sort=order, title=None, axis=axis),
        tooltip=[
            alt.Tooltip("label:N", title="kernel"),
            alt.Tooltip("shown:N", title="us an iteration"),
            alt.Tooltip("kind:N", title="class"),
            alt.Tooltip("words:N", title="verdict"),
            alt.Tooltip("text:N", title="why"),
        ],
    )
    place = {
        name: alt.X(f"{name}:Q", title=title, scale=scale) for name in ("start", "end", "right")
    }
    height = {"band": 0.68}
    zero = chart_of([{"start": 0}]).mark_rule(color=NEUTRAL).encode(x=place["start"])
    rects = base.mark_bar(height=height).encode(
        x=place["start"], x2="end:Q", color=verdict_colour()
    )
    # A bar that is thinner than a pixel still has its place.
    ends_of_bars = base.mark_tick(thickness=2, height=height).encode(
        x=place["end"], color=verdict_colour()
    )
    signs = base.mark_text(align="left", dx=5, fontSize=12, color=NEUTRAL).encode(
        x=place["right"], text="shown:N"
    )
    chart = alt.layer(zero, rects, ends_of_bars, signs).properties(
        height=_BAR_PX * len(bars) + _AXIS_PX, width="container"
    )
    return finished(chart)


def _bar(
    number: int | None, name: str, size_s: float, *, row: DiffRow | None = None, why: str = ""
) -> dict[str, Any]:
    # Numbers keep two kernels of one label apart, and are those of the table.
    text = one_line(shortened(name, limit=_NAME_LENGTH))
    verdict = Verdict.UNCHANGED if row is None else row.verdict
    words = "not judged" if row is None or row.is_part else _WORDS[verdict]
    return {
        "name": text if number is None else f"{text}  #{number}",
        "label": one_line(shortened(name, limit=4 * _NAME_LENGTH)),
        "size": 1e6 * size_s,
        "shown": signed_us(size_s),
        "kind": "" if row is None else row.kind,
        "verdict": str(verdict),
        "words": words,
        "text": one_line(shortened(why if row is None else row.text, limit=300)),
    }
