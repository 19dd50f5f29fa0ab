"""The result of a search as the cause of an alert: JSON whose `text` every surface shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from compile_hud.db.records.json_fields import time_to_json
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.confirmation.confirmation import change_pct
from compile_hud.runner.bisect.alert_search import ALSO_MOVED, SearchPlan
from compile_hud.runner.bisect.record import BisectEnding, Bisection, BisectRevision
from compile_hud.runner.bisect.report import change_text, error_bound, repro, revision_text

_MAX_NAMES = 4
_NO_CHANGE = (BisectEnding.SAME_ENDS, BisectEnding.UNCLEAR_ENDS)


class SearchStage(StrEnum):
    """The state of the search behind an alert."""

    QUEUED = "queued"
    ENDED = "ended"
    NOT_SEARCHED = "not_searched"


def queued_answer(plan: SearchPlan, *, at: datetime) -> dict[str, Any]:
    """Return the document of a search that waits in the queue."""
    first, last = plan.revisions[0], plan.revisions[-1]
    num_between = len(plan.revisions) - 1
    text = (
        f"search queued: {counted(num_between, 'revision')} after {revision_text(first)}"
        f" up to {revision_text(last)}"
    )
    return _document(SearchStage.QUEUED, text=text, at=at, axis=str(plan.axis))


def refused_answer(reason: str, *, at: datetime) -> dict[str, Any]:
    """Return the document of an alert that has nothing to search."""
    return _document(SearchStage.NOT_SEARCHED, text=f"not searched: {reason}", at=at)


def immediate_answer(plan: SearchPlan, *, at: datetime) -> dict[str, Any]:
    """Return the document of a change with a single revision between its bounds."""
    good, bad = plan.revisions
    return _document(
        SearchStage.ENDED,
        text=f"first bad revision: {_signed(bad)}, the only one after {revision_text(good)}",
        at=at,
        axis=str(plan.axis),
        ending=str(BisectEnding.FOUND),
        first_bad=dataclasses.asdict(bad),
        last_good=dataclasses.asdict(good),
        suspects=[bad.name],
    )


def search_answer(known: Bisection, *, at: datetime, reason: str = "") -> dict[str, Any]:
    """Return the document of a search; `reason` says why one without an ending stopped."""
    ending, suspects = known.ending, known.suspects
    is_searched = known.ends is not None and ending not in _NO_CHANGE
    evidence = (known.evidence if is_searched else None) or known.ends
    indices = range(suspects.last_good + 1, suspects.first_bad + 1) if is_searched else ()
    names = [known.revisions[index] for index in indices]
    is_found = ending is BisectEnding.FOUND
    kernels = (evidence.kernels if evidence is not None else None) or {}
    document = _document(
        SearchStage.ENDED,
        text=_text(known, names, reason=reason),
        at=at,
        axis=str(known.axis),
        ending=None if ending is None else str(ending),
        first_bad=dataclasses.asdict(names[-1]) if is_found else None,
        last_good=dataclasses.asdict(known.revisions[suspects.last_good]) if names else None,
        suspects=[item.name for item in names],
        repro=repro(known) if is_searched else "",
        bisection_id=known.id,
        took_s=known.spent_s,
        error_bound=error_bound(known) if is_found else None,
        kernels=kernels if is_found else None,
    )
    if evidence is None:
        return document
    return {
        **document,
        "metric": evidence.metric,
        "change_pct": change_pct(evidence.ratio),
        "interval_pct": [change_pct(evidence.low), change_pct(evidence.high)],
        "num_pairs": evidence.num_pairs,
    }


def is_ended(document: Mapping[str, Any] | None) -> bool:
    """Return whether a stored search needs no further step."""
    return document is not None and document.get("state") != SearchStage.QUEUED


def _document(state: SearchStage, *, text: str, at: datetime, **values: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "axis": None,
        "ending": None,
        "first_bad": None,
        "last_good": None,
        "suspects": [],
        "metric": None,
        "change_pct": None,
        "interval_pct": None,
        "num_pairs": None,
        "error_bound": None,
        "kernels": None,
        "repro": "",
        "bisection_id": "",
        "took_s": 0.0,
    }
    return {"state": str(state), "text": text, "at": time_to_json(at), **empty, **values}


def _text(known: Bisection, suspects: list[BisectRevision], *, reason: str) -> str:
    """Return the result in one line."""
    if known.ends is None:
        return f"not decided: {reason}"
    ending, evidence = known.ending, known.evidence
    if ending is BisectEnding.FOUND:
        assert evidence is not None
        causes = [evidence.model_code, (evidence.kernels or {}).get("cause", "")]
        parts = [
            f"first bad revision: {_signed(suspects[-1])}",
            f"{change_text(evidence)} of launches",
            _confidence(known),
            *causes,
        ]
        return "; ".join(filter(None, parts))
    ends = change_text(known.ends)
    if ending is BisectEnding.SAME_ENDS:
        also = known.origin.get(ALSO_MOVED)
        moved = f"; {also} moved as well" if also else ""
        return f"not decided: last good and first bad revision do not differ now ({ends}){moved}"
    if ending is BisectEnding.UNCLEAR_ENDS:
        return f"not decided: it is not clear whether the two revisions differ ({ends})"
    if ending is BisectEnding.UNCONFIRMED:
        return (
            f"not decided: the search ended at {_signed(suspects[-1])}, which carries no more than"
            f" half of the change ({ends} in all)"
        )
    shown = ", ".join(revision_text(item) for item in suspects[:_MAX_NAMES])
    more = ", ..." if len(suspects) > _MAX_NAMES else ""
    why = reason or "the others are undecided"
    return f"first bad revision: one of {len(suspects)} ({shown}{more}), {why}; {ends} in all"


def _confidence(known: Bisection) -> str:
    error = error_bound(known)
    return "" if error is None else f"wrong with at most {100 * error:.1f} %"


def _signed(revision: BisectRevision) -> str:
    return revision_text(revision) + (f" by {revision.author}" if revision.author else "")
