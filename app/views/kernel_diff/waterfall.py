"""The waterfall of a kernel diff: the contribution of each change, the largest first. Pure.

It begins at no difference and ends at the difference of the two latencies. Colour shows the
verdict; each bar has its sign too. It is HTML, and each bar is a link. For a chart of twenty bars
the browser would need half the time of loading an empty page.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from compile_hud.app.ui.legend import LegendItem
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.theme import VERDICT_STYLES
from compile_hud.app.ui.urls import KernelDiffState, kernel_diff_url
from compile_hud.app.views.kernel_diff.records import DiffPage, DiffRow, class_words
from compile_hud.db.records.results import Verdict
from compile_hud.db.shared.text import counted, one_line, shortened, signed_us

# More bars than fit on a screen say no more than their sum.
MAX_BARS = 14
UNEXPLAINED, DIFFERENCE = "unexplained", "difference"
LABEL = "us an iteration, candidate less baseline"
_NAME_LENGTH = 44
# A share of the width of the bars, for the number to the right of the last.
_MARGIN = 0.14
_WORDS = {
    Verdict.REGRESSION: "slower",
    Verdict.IMPROVEMENT: "faster",
    Verdict.UNCHANGED: "within noise",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallBar:
    """A bar from `start_s` on, in seconds per iteration; `number` is that of its row.

    `words` has the verdict, `text` its reason.
    """

    name: str
    size_s: float
    text: str
    number: int | None = None
    label: str = ""
    kind: str = ""
    verdict: Verdict = Verdict.UNCHANGED
    words: str = "not judged"
    start_s: float = 0.0

    @property
    def end_s(self) -> float:
        """Return the end of the bar."""
        return self.start_s + self.size_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _DrawnStep:
    """A bar as it is drawn: its name with the address of its row, and its ends in percent."""

    name: str
    href: str
    title: str
    style: str
    left: str
    right: str
    width: str
    number: str


def waterfall_steps(page: DiffPage) -> list[WaterfallBar]:
    """Return the bars from top to bottom.

    The largest kernels and each component of the profile have bars of their own; all other kernels
    share one. Then comes the unexplained part, if there is any, and last the whole difference,
    which begins at 0.
    """
    kernels = [row for row in page.rows if not row.is_part]
    shown, rest = kernels[:MAX_BARS], kernels[MAX_BARS:]
    steps = [_step(row) for row in shown]
    if rest:
        rest_s = math.fsum(row.contribution_s for row in rest)
        name = counted(len(rest), "other row")
        steps.append(WaterfallBar(name=name, size_s=rest_s, text="each contributes less"))
    steps += [_step(row) for row in page.rows if row.is_part]
    if page.unexplained_s:
        steps.append(
            WaterfallBar(name=UNEXPLAINED, size_s=page.unexplained_s, text=page.unexplained_text)
        )
    chain: list[WaterfallBar] = []
    for step in steps:
        start_s = chain[-1].end_s if chain else 0.0
        chain.append(dataclasses.replace(step, start_s=start_s))
    return [
        *chain,
        WaterfallBar(name=DIFFERENCE, size_s=page.change_s, text=f"of the {page.basis}"),
    ]


def waterfall(steps: Sequence[WaterfallBar], state: KernelDiffState) -> Markup:
    """Return the bars; the name of a row leads to the page with that row opened."""
    ends_s = [0.0, *(step.end_s for step in steps)]
    low_s = min(ends_s)
    whole_s = (max(ends_s) - low_s) / (1.0 - _MARGIN) or 1.0

    def position(time_s: float) -> str:
        return f"{100 * (time_s - low_s) / whole_s:.2f}%"

    bars = []
    for step in steps:
        left_s, right_s = sorted((step.start_s, step.end_s))
        bars.append(
            _DrawnStep(
                name=step.name,
                href=_url(step, state),
                title=_title(step),
                style=VERDICT_STYLES.get(step.verdict, ""),
                left=position(left_s),
                right=position(right_s),
                width=f"{100 * (right_s - left_s) / whole_s:.2f}%",
                number=signed_us(step.size_s),
            )
        )
    return render("bars.html", "waterfall", bars=bars, label=LABEL, zero=position(0.0))


def waterfall_legend(steps: Sequence[WaterfallBar]) -> tuple[LegendItem, ...]:
    """Return the signs of these bars."""
    verdicts = {step.verdict for step in steps}
    items = [
        LegendItem(sign=f"bar-{VERDICT_STYLES[verdict]}", text=_WORDS[verdict])
        for verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)
        if verdict in verdicts
    ]
    if verdicts - set(VERDICT_STYLES):
        items.append(LegendItem(sign="bar-grey", text="within noise, or not tested"))
    return tuple(items)


def _step(row: DiffRow) -> WaterfallBar:
    # Ranks distinguish two kernels of one label, and are those of the table.
    return WaterfallBar(
        name=f"{one_line(shortened(row.label, limit=_NAME_LENGTH))}  #{row.number}",
        size_s=row.contribution_s,
        text=row.text,
        number=row.number,
        label=row.label,
        kind=row.kind,
        verdict=row.verdict,
        words="not judged" if row.is_part else _WORDS[row.verdict],
    )


def _url(step: WaterfallBar, state: KernelDiffState) -> str:
    if step.number is None:
        return ""
    return kernel_diff_url(dataclasses.replace(state, row=str(step.number)))


def _title(step: WaterfallBar) -> str:
    label = shortened(step.label or step.name, limit=4 * _NAME_LENGTH)
    words = [class_words(step.kind), step.words, step.text]
    text = ", ".join(word for word in words if word)
    return one_line(f"{label}: {signed_us(step.size_s)} us an iteration; {text}")
