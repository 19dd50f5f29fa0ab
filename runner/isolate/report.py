"""The answer of an isolation in lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from compile_hud.db.records.metrics import metric_label
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.bisection import BoundsVerdict
from compile_hud.runner.bisect.report import change_text
from compile_hud.runner.isolate.isolation import Isolation, percent
from compile_hud.runner.isolate.shares import FoundShare, Position, ShareKind, is_effect

# Of many differences the first are shown; `--json` has all.
_NUM_SHOWN = 8


def answer_lines(isolation: Isolation, *, before: str, after: str) -> Iterator[str]:
    """Yield the change, the shares of the differences, and what was left out."""
    ends = isolation.ends
    yield f"{isolation.case.key}"
    yield f"{metric_label(ends.metric)} from {before} to {after}: {change_text(ends)}"
    yield from _answer(isolation)
    for item in isolation.unusable:
        names = ", ".join(part.text for part in item.differences)
        yield f"not combined: {names}: {item.reason}"
    if isolation.unmovable:
        texts = [item.text for item in isolation.unmovable]
        yield f"another Python, so these cannot be moved: {_listed(texts)}"
    if isolation.unloaded:
        yield f"not loaded, so not searched: {_listed([item.text for item in isolation.unloaded])}"


def is_answered(isolation: Isolation) -> bool:
    """Return whether the named differences explain the change, and nothing else does."""
    return (
        bool(isolation.shares)
        and all(share.kind is not ShareKind.UNSEPARATED for share in isolation.shares or ())
        and isolation.rest is not None
        and not is_effect(isolation.rest)
    )


def has_more_to_find(isolation: Isolation) -> bool:
    """Return whether more launches could name what the answer leaves open."""
    is_searched = bool(isolation.differences) and isolation.verdict is BoundsVerdict.DIFFER
    is_open = isolation.verdict is BoundsVerdict.UNCLEAR
    return is_open or (is_searched and not is_answered(isolation))


def _answer(isolation: Isolation) -> Iterator[str]:
    if isolation.verdict is BoundsVerdict.SAME:
        yield "the toolchains are the same within the floor: there is nothing to isolate"
    elif isolation.verdict is BoundsVerdict.UNCLEAR:
        yield "the change is not clear: more launches (--max-launches) or a quieter machine decide"
    elif not isolation.differences and (isolation.unmovable or isolation.unloaded):
        yield "no difference can be moved to the first toolchain, so the cause is not searched"
    elif not isolation.differences:
        yield "the toolchains have the same packages and variables: the cause is outside of them"
    else:
        yield f"measured {counted(isolation.num_mixtures, 'mixture')} of both toolchains:"
        for share in isolation.shares or ():
            yield f"  {_share_text(share.position)}  {_names(isolation, share)}"
        yield from _rest(isolation)


def _rest(isolation: Isolation) -> Iterator[str]:
    rest = isolation.rest
    named = {number for share in isolation.shares or () for number in share.numbers}
    if len(named) == len(isolation.differences):
        # Nothing is left that could have an effect.
        return
    if not isolation.shares:
        yield "  no difference has a fifth of the change: it is the sum of many small ones"
    elif rest is None:
        yield "  the rest was not measured: everything but this does not run"
    elif is_effect(rest):
        yield f"  {_share_text(rest)}  the rest alone: another difference has the same effect"
    else:
        yield f"  {_share_text(rest)}  the rest"


def _names(isolation: Isolation, share: FoundShare) -> str:
    texts = [item.text for item in isolation.named(share)]
    if share.kind is ShareKind.TOGETHER:
        return f"{' with '.join(texts)}, only together"
    if share.kind is ShareKind.UNSEPARATED:
        return f"one or several of {_listed(texts)}"
    return texts[0]


def _share_text(position: Position) -> str:
    share, low, high = map(percent, (position.share, position.low, position.high))
    return f"{share:>4} % [{low}, {high}]"


def _listed(texts: list[str]) -> str:
    shown = ", ".join(texts[:_NUM_SHOWN])
    left = len(texts) - _NUM_SHOWN
    return f"{shown} and {left} more" if left > 0 else shown
