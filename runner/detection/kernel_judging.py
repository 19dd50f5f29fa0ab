"""Judge the kernels of cases with new results, and decide over all cases of a run."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterator, Sequence

from compile_hud.db.errors import RecordError
from compile_hud.db.queries.kernel_series import count_ok_results, load_kernel_histories
from compile_hud.db.queries.kernels import load_sources
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.summaries import KernelNight
from compile_hud.db.store import Store
from compile_hud.runner.analysis.detection.false_discovery import (
    AlertCandidate,
    apply_false_discovery_rate,
)
from compile_hud.runner.analysis.judging.series_rules import SeriesRules
from compile_hud.runner.analysis.kernel_series.masked_alerts import (
    earlier_alerts,
    judge_kernels,
    without_explained,
)
from compile_hud.runner.analysis.kernel_series.masked_changes import NIGHT_BUDGET, NUM_RESULTS
from compile_hud.runner.analysis.kernels.grouping import KernelSide

logger = logging.getLogger(__name__)


def kernel_candidates(
    store: Store,
    case_keys: Collection[str],
    *,
    rules: SeriesRules,
    stored: Sequence[Alert],
    check: Callable[[], None],
) -> Iterator[AlertCandidate]:
    """Yield the candidates of the kernels of some cases; raise the store's errors.

    Damaged kernels of one case are logged, and cost only its own verdict.
    """
    side_of = functools.partial(side_of_night, store)
    for history in load_kernel_histories(store, case_keys, num_results=NUM_RESULTS):
        check()
        try:
            yield from earlier_alerts(history, stored=stored, side_of=side_of)
            yield from judge_kernels(history, rules=rules, side_of=side_of)
        except RecordError as error:
            logger.warning("the kernels of %s were not judged: %s", history.case.key, error)


def side_of_night(store: Store, night: KernelNight) -> KernelSide:
    """Return the kernels of `night` with their code; raise the store's errors."""
    hashes = {kernel.source_hash for kernel in night.kernels} - {""}
    sources = {name: source.text for name, source in load_sources(store, hashes).items()}
    return KernelSide(kernels=night.kernels, sources=sources)


def accepted_kernels(
    store: Store,
    candidates: Sequence[AlertCandidate],
    *,
    others: Sequence[Alert],
    confirmed: Collection[str],
) -> list[Alert]:
    """Return the alerts of `candidates` that the other alerts do not explain.

    Each case of a run has one p-value: it stays within the budget of a night, and the run decides
    over all cases. Alerts in `confirmed` were accepted before.
    """
    likely = [
        item
        for item in candidates
        if item.p_value is None or item.p_value <= NIGHT_BUDGET or item.alert.id in confirmed
    ]
    if not likely:
        return []
    accepted = apply_false_discovery_rate(
        likely, num_series=count_ok_results(store), confirmed=confirmed
    )
    return without_explained([candidate.alert for candidate in accepted], others=others)
