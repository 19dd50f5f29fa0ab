"""The answer of an isolation as lines for a terminal, as JSON, and with what continues it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compile_hud.db.records.metrics import metric_label
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.bisection import BoundsVerdict
from compile_hud.runner.bisect.report import change_text
from compile_hud.runner.isolate.continuation import anew_command, longer_options, resume_command
from compile_hud.runner.isolate.isolation import Isolation, percent
from compile_hud.runner.isolate.shares import FoundShare, Position, ShareKind, is_effect

# Of many differences the first are shown; `--json` has all.
_NUM_SHOWN = 8


def answer_lines(isolation: Isolation) -> Iterator[str]:
    """Yield the change, the shares of the differences, and what was left out."""
    ends, known = isolation.ends, isolation.known
    yield f"{known.case.key}"
    names = f"from {known.baseline} to {known.candidate}"
    yield f"{metric_label(ends.metric)} {names}: {change_text(ends)}"
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


def next_commands(isolation: Isolation) -> list[str]:
    """Return the command that could name what the answer leaves open, none without such a one."""
    known = isolation.known
    if isolation.verdict is BoundsVerdict.UNCLEAR:
        return [resume_command(known, longer_options(known))]
    is_searched = bool(isolation.differences) and isolation.verdict is BoundsVerdict.DIFFER
    if not is_searched or is_answered(isolation):
        return []
    if isolation.is_cut:
        more = str(2 * known.limits.max_toolchains)
        return [resume_command(known, [("max-toolchains", more)])]
    return [anew_command(known, longer_options(known))]


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


def as_mapping(isolation: Isolation) -> Mapping[str, object]:
    """Return the isolation as a JSON object."""
    shares = isolation.shares
    return {
        "id": isolation.known.id,
        "baseline": isolation.known.baseline,
        "candidate": isolation.known.candidate,
        "case": isolation.known.case.to_json(),
        "metric": isolation.ends.metric,
        "ends": {
            "verdict": str(isolation.verdict),
            "ratio": isolation.ends.ratio,
            "low": isolation.ends.low,
            "high": isolation.ends.high,
            "num_pairs": isolation.ends.num_pairs,
        },
        "differences": [item.to_json() for item in isolation.differences],
        "unloaded": [item.to_json() for item in isolation.unloaded],
        "unmovable": [item.to_json() for item in isolation.unmovable],
        "shares": None
        if shares is None
        else [
            {
                "differences": [item.to_json() for item in isolation.named(share)],
                "kind": str(share.kind),
                **_percent(share.position),
            }
            for share in shares
        ],
        "rest": None if isolation.rest is None else _percent(isolation.rest),
        "unusable": [
            {"differences": [part.to_json() for part in item.differences], "reason": item.reason}
            for item in isolation.unusable
        ],
        "num_mixtures": isolation.num_mixtures,
    }


def _percent(position: Position) -> dict[str, float | list[float]]:
    return {
        "share_pct": 100 * position.share,
        "interval_pct": [100 * position.low, 100 * position.high],
    }
