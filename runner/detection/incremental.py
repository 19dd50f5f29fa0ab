"""Judge only the cases with new results, and reuse the stored candidates of the others.

The candidates of a case depend on its results and on those of the reference cases in the same runs.
They also depend on user-defined rules and on the code. Their stamp covers these four. While it is
equal, a second judgement would have the same result.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import multiprocessing
import os
import signal
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compile_hud.db.queries.judge_state import JudgeState, load_case_stamps, load_judge_states
from compile_hud.db.queries.series import load_histories, load_imported_metrics
from compile_hud.db.records import metrics
from compile_hud.db.records.results import REFERENCE_FAMILY
from compile_hud.db.records.summaries import Series
from compile_hud.db.rows.mapping import alert_document, document_alert
from compile_hud.db.store import Store
from compile_hud.runner import analysis
from compile_hud.runner.analysis.detection.false_discovery import AlertCandidate
from compile_hud.runner.analysis.judging.judge import (
    NEEDED_METRICS,
    JudgedBatch,
    UnjudgedNumbers,
    judge_batch,
)
from compile_hud.runner.analysis.judging.machine_state import CLOCKS
from compile_hud.runner.analysis.judging.series_rules import SeriesRules
from compile_hud.runner.errors import JudgeProcessKilled
from compile_hud.runner.system.processes import begin_work, blocked, safe_path

# A process takes up to a second to start; this number of cases takes one core three.
MIN_CASES_TO_SHARE = 400
CASES_PER_BATCH = 25
JUDGING_LOST = (
    "a process that judged was ended from outside, maybe for want of memory; nothing was saved"
)


class HistoryObserver(Protocol):
    """A second reader of the histories of some cases."""

    @property
    def case_keys(self) -> Collection[str]:
        """Return the keys of the cases whose histories it needs."""

    def observe(self, histories: Iterable[Series]) -> Iterable[Series]:
        """Pass on all histories, and observe them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeResult:
    """The candidates of all cases, the states to save for the next time, and what was left out.

    A case with numbers that were left out has no state: each judgement reports them.
    """

    candidates: Sequence[AlertCandidate]
    judged: Mapping[str, JudgeState]
    unjudged: Sequence[UnjudgedNumbers] = ()


def no_op() -> None:
    """Raise nothing: the judging is not stopped."""


def no_kernels(_case_keys: Collection[str]) -> Iterable[AlertCandidate]:
    """Return no candidates."""
    return ()


def find_candidates(
    store: Store,
    *,
    rules: SeriesRules,
    observer: HistoryObserver,
    is_full: bool,
    judge_kernels: Callable[[Collection[str]], Iterable[AlertCandidate]] = no_kernels,
    check: Callable[[], None] = no_op,
) -> JudgeResult:
    """Return the candidates of every case; only cases with a new stamp are read and judged.

    Cases that `observer` needs are read too. With `is_full` all are read, with the same result.
    `judge_kernels` returns the candidates of the kernels of some cases.
    `check` is called between batches of cases and may raise. Raises JudgeProcessKilled.
    """
    common = _digest(rules)
    stamps = {key: f"{common} {stamp}" for key, stamp in load_case_stamps(store).items()}
    before = {} if is_full else load_judge_states(store)
    observed = observer.case_keys
    unchanged = {
        key: before[key]
        for key, stamp in stamps.items()
        if key in before and before[key].stamp == stamp and key not in observed
    }
    stale = stamps.keys() - unchanged.keys()
    fresh, unjudged = _judge(store, stale, rules=rules, observer=observer, check=check)
    for candidate in judge_kernels(stale):
        fresh.setdefault(candidate.alert.case.key, []).append(candidate)
    reported = {item.case_key for item in unjudged}
    judged = dict(unchanged)
    for key in stale - reported:
        judged[key] = JudgeState(stamp=stamps[key], claims=_text(fresh.get(key, ())))
    candidates = [
        candidate
        for key in sorted(judged.keys() | reported)
        for candidate in (
            fresh.get(key, ()) if key in stale else _candidates(unchanged[key].claims)
        )
    ]
    return JudgeResult(candidates=candidates, judged=judged, unjudged=unjudged)


def _judge(
    store: Store,
    case_keys: Collection[str],
    *,
    rules: SeriesRules,
    observer: HistoryObserver,
    check: Callable[[], None],
) -> tuple[dict[str, list[AlertCandidate]], list[UnjudgedNumbers]]:
    if not case_keys:
        return {}, []
    references = list(load_histories(store, metrics=CLOCKS, family=REFERENCE_FAMILY))
    metrics = (*NEEDED_METRICS, *load_imported_metrics(store))
    histories = load_histories(store, metrics=metrics, case_keys=case_keys)
    judge = functools.partial(judge_batch, references=references, rules=rules)
    num_processes = len(os.sched_getaffinity(0)) if len(case_keys) >= MIN_CASES_TO_SHARE else 1
    by_case: dict[str, list[AlertCandidate]] = defaultdict(list)
    unjudged: list[UnjudgedNumbers] = []
    try:
        for batch in share(
            judge, _batches(observer.observe(histories)), num_processes=num_processes
        ):
            check()
            unjudged += batch.unjudged
            for candidate in batch.candidates:
                by_case[candidate.alert.case.key].append(candidate)
    except BrokenProcessPool:
        # A signal that stops this process may end its children at the same time.
        check()
        raise JudgeProcessKilled(JUDGING_LOST) from None
    return by_case, unjudged


def _batches(histories: Iterable[Series]) -> Iterator[list[Series]]:
    """Yield the series of some cases at a time; those of one case stay together."""
    batch: list[Series] = []
    cases = itertools.groupby(histories, key=lambda series: series.header.case.key)
    for number, (_, group) in enumerate(cases, start=1):
        batch += group
        if number % CASES_PER_BATCH == 0:
            yield batch
            batch = []
    if batch:
        yield batch


def share(
    judge: Callable[[Sequence[Series]], JudgedBatch],
    batches: Iterable[Sequence[Series]],
    *,
    num_processes: int,
) -> Iterator[JudgedBatch]:
    """Yield the result of `judge` for each batch, in order, with `num_processes` processes."""
    if num_processes == 1:
        yield from map(judge, batches)
        return
    # The processes are spawned, not forked: DuckDB's threads may have locks that a fork would never
    # see released. They get a function of runner.analysis: importing this module takes more than
    # twice as long.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(num_processes, mp_context=context, initializer=begin_work)
    try:
        waiting: deque[Future[JudgedBatch]] = deque()
        for batch in batches:
            # The processes inherit the blocked signals. Ctrl-C is for this process, which ends
            # them.
            with blocked(signal.SIGINT), safe_path():
                waiting.append(pool.submit(judge, batch))
            # Not more than is being worked on: a history of years need not fit into memory.
            if len(waiting) > 2 * num_processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _text(candidates: Sequence[AlertCandidate]) -> str:
    return json.dumps(
        [
            {
                "alert": alert_document(candidate.alert),
                "run_id": candidate.run_id,
                "p": candidate.p_value,
            }
            for candidate in candidates
        ]
    )


def _candidates(text: str) -> list[AlertCandidate]:
    return [
        AlertCandidate(
            alert=document_alert(item["alert"]), run_id=item["run_id"], p_value=item["p"]
        )
        for item in json.loads(text)
    ]


def _digest(rules: SeriesRules) -> str:
    expected = sorted((key, sorted(runs)) for key, runs in rules.expected.items())
    # An owner or a mute changes no verdict.
    settings = [
        (item.pattern, item.floor, item.baseline_run_id)
        for item in rules.settings
        if item.floor is not None or item.baseline_run_id
    ]
    text = f"{_code_digest()} {settings} {expected}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@functools.cache
def _code_digest() -> str:
    (folder,) = map(Path, analysis.__path__)
    return code_digest(folder, Path(metrics.__file__))


def code_digest(folder: Path, *files: Path) -> str:
    """Return the hash of all Python code below `folder`, at any depth, and of `files`."""
    digest = hashlib.sha256()
    for path in [*sorted(folder.rglob("*.py")), *files]:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
