"""Machine drift by the eager iterations of the same processes.

Method: eager is measured in turn with a variant. If both times changed by the same factor, their
ratio did not, and the change is not the compiler's: the rule by which alerts are attributed
(judging/attribution.py). With the same code on both sides it is the machine's. Otherwise the
reference cases decide whether it is eager's own. The speedup judges the variant in its stead.
Assumptions: a machine slows eager and the variant alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from compile_hud.db.shared.text import signed_percent
from compile_hud.runner.analysis.comparison.cpu_clocks import (
    CPU,
    EAGER_CLOCKS,
    SPEEDUP,
    WALL,
    against_eager,
)
from compile_hud.runner.analysis.comparison.measurements import (
    CHANGED,
    Comparison,
    Judgement,
    inconclusive,
)
from compile_hud.runner.analysis.judging.attribution import (
    EAGER,
    EAGER_OR_MACHINE,
    MACHINE,
    ControlMetrics,
    attribute_cause,
)
from compile_hud.runner.analysis.judging.machine_state import MachineChange
from compile_hud.runner.analysis.stats.rounds import Pair


def judge_by_eager(
    pair: Pair,
    comparisons: Mapping[str, Comparison],
    judgements: Mapping[str, Judgement],
    *,
    references: Sequence[MachineChange],
    is_same_code: bool,
) -> Iterator[tuple[str, Comparison]]:
    """Yield the changed latencies that eager in the same processes explains, as inconclusive.

    `references` are the changes of the reference cases. With `is_same_code` both sides ran the same
    torch and the same model code, so that eager itself has not changed.
    """
    reason = decider = ""
    for clock in (CPU, WALL):
        comparison = comparisons.get(clock)
        if clock == WALL and not reason and _has_changed(comparisons.get(CPU)):
            # A busy machine moves the wall clocks of both; the CPU time, which it moves less, is
            # the control.
            continue
        if comparison is not None and reason and comparison.decided_by == CPU:
            yield clock, inconclusive(reason, of=comparison, decided_by=decider)
            continue
        if comparison is None or comparison.verdict not in CHANGED or comparison.ratio is None:
            continue
        paired = against_eager(pair, clock, judgements[clock])
        if paired is None or paired.verdict in CHANGED:
            continue
        change = _eager_change(pair, clock)
        controls = ControlMetrics(
            metric=clock, change=comparison.ratio - 1, eager=change, references=references
        )
        kind = attribute_cause(controls, is_eager=False).kind
        if kind not in (EAGER, MACHINE, EAGER_OR_MACHINE):
            continue
        text = f"eager in the same processes {signed_percent(change)}"
        if kind == MACHINE or is_same_code:
            text = f"machine drift: {text}"
        elif kind == EAGER or not references:
            # Eager torch or the model became slower, or may have: no reference case speaks for it.
            continue
        else:
            text = f"{text}: eager side or machine, not the compiler"
        decider = SPEEDUP if SPEEDUP in comparisons else ""
        reason = f"{text}; the speedup decides" if decider else text
        yield clock, inconclusive(reason, of=comparison, decided_by=decider)


def _has_changed(comparison: Comparison | None) -> bool:
    return comparison is not None and comparison.verdict in CHANGED


def _eager_change(pair: Pair, clock: str) -> float:
    before, after = (np.log(levels) for levels in pair.launch_levels(EAGER_CLOCKS[clock]))
    return math.expm1(float(np.mean(after) - np.mean(before)))
