"""The answer of a transplant in lines for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator

from compile_hud.db.records.metrics import metric_label
from compile_hud.db.shared.text import counted, signed_percent
from compile_hud.runner.analysis.comparison.bisection import BoundsVerdict
from compile_hud.runner.transplant.experiment import Transplantation
from compile_hud.runner.transplant.shares import LossShare


def answer_lines(answer: Transplantation, *, good: str, bad: str) -> Iterator[str]:
    """Yield the loss, the share of each kernel, what is left, and the refused kernels."""
    loss = answer.loss
    low, middle, high = (
        signed_percent(ratio - 1, decimals=1) for ratio in (loss.low, loss.value, loss.high)
    )
    source = "in earlier runs" if answer.is_known else counted(answer.num_rounds, "round")
    yield f"{answer.case.key}"
    yield f"{metric_label(answer.metric)} from {good} to {bad}: {middle} [{low}, {high}], {source}"
    yield from _shares(answer)
    for item in answer.refusals:
        yield f"refused: {item.label}: {item.text}"


def sentence(answer: Transplantation) -> str:
    """Return the answer in one sentence."""
    if answer.verdict is BoundsVerdict.SAME:
        return "the bad build is no slower within the floor: there is no loss to explain"
    if answer.verdict is BoundsVerdict.UNCLEAR:
        return "the loss is not clear: more rounds (--max-launches) or a quieter machine decide"
    together = answer.together
    if together is None:
        return (
            "no kernel was transplanted: the slower ones are refused"
            if answer.refusals
            else "no kernel became slower with other code: the loss is not explained by kernels"
        )
    names = [f"`{gain.candidate.label}`" for gain in answer.gains]
    what = (
        f"the old {names[0]}"
        if len(names) == 1
        else f"{counted(len(names), 'old kernel')} together"
    )
    return f"with {what} {_share_text(together).strip()} of the loss is gone"


def is_answered(answer: Transplantation) -> bool:
    """Return whether the transplanted kernels explain the loss, and nothing else does."""
    together = answer.together
    return (
        answer.verdict is BoundsVerdict.DIFFER
        and together is not None
        and together.is_effect
        and not together.rest.is_effect
    )


def _shares(answer: Transplantation) -> Iterator[str]:
    yield sentence(answer)
    together = answer.together
    if answer.verdict is not BoundsVerdict.DIFFER or together is None:
        return
    for gain in answer.gains:
        yield f"  {_share_text(gain.share)}  {gain.candidate.label}"
    if len(answer.gains) > 1:
        yield f"  {_share_text(together)}  all together"
    rest = "not explained by these kernels" if answer.refusals else "not explained by kernels"
    yield f"  {_share_text(together.rest)}  {rest}"


def _share_text(share: LossShare) -> str:
    if not math.isfinite(share.share):
        return "   - %"
    if share.low is None or share.high is None:
        return f"{round(100 * share.share):>4} % [unclear]"
    low, high = round(100 * share.low), round(100 * share.high)
    return f"{round(100 * share.share):>4} % [{low}, {high}]"
