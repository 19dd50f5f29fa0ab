"""slower-than-eager: a compiled case takes longer than eager.

It is reported if the whole interval of the speedup is below 1 and the loss is at least MIN_LOSS.
Its cost is the difference of both latencies, by the clock of the speedup. The costs of the other
findings are the explained part. If they exceed the loss, the rest of the case is faster than eager.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from compile_hud.db.records.findings import OTHER_FINDING, TOTAL, Exhibit, Finding
from compile_hud.db.records.metrics import speedup_latencies
from compile_hud.runner.analysis.findings.locations import metric_exhibit, time_text
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

# A smaller loss is not worth a person's time.
MIN_LOSS = 0.01
MEANING = "The compiled case takes longer than eager, for the reasons below and a rest."
REMEDY = "remove the causes below; until then, run this model eagerly"
_UNEXPLAINED = "no rule knows the cause: compare the kernels with eager's, or run it eagerly"
_NUM_NAMED = 2


def slower_than_eager(case: ResultEvidence, *, others: Sequence[Finding]) -> Finding | None:
    """Return the loss against eager as the sum of `others` and a rest, None without a loss."""
    speedup = case.result.measurement("speedup")
    if speedup is None or speedup.interval[1] >= 1 or case.is_eager:
        return None
    eager_s, variant_s = map(case.median, speedup_latencies([speedup.method]))
    if eager_s is None or variant_s is None or variant_s < (1 + MIN_LOSS) * eager_s:
        return None
    loss_s = variant_s - eager_s
    costs = [(item.code, item.cost_s) for item in others if item.cost_s]
    rest_s = loss_s - math.fsum(cost_s for _, cost_s in costs)
    named = ", ".join(f"{code} {time_text(cost_s)}" for code, cost_s in costs[:_NUM_NAMED])
    rest = f"the rest is {time_text(abs(rest_s))} {'slower' if rest_s > 0 else 'faster'}"
    return Finding(
        code=TOTAL,
        text=f"{time_text(variant_s)} against {time_text(eager_s)} of eager"
        + (f": {named}; {rest}" if costs else ""),
        cost_s=loss_s,
        remedy=REMEDY if others else _UNEXPLAINED,
        evidence=(
            metric_exhibit("speedup", speedup.median, unit="x"),
            *(
                Exhibit(kind=OTHER_FINDING, name=code, value=cost_s, unit="s")
                for code, cost_s in costs
            ),
            Exhibit(kind="rest", name="rest", value=rest_s, unit="s"),
        ),
    )
