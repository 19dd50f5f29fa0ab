"""The results of a bisection as lines for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from compile_hud.db.records.metrics import METRICS, metric_label
from compile_hud.db.records.results import Verdict
from compile_hud.db.shared.text import counted, one_line, shortened, signed
from compile_hud.runner.analysis.comparison.bisection import (
    SEARCH_ERROR,
    BoundsVerdict,
    Mark,
    Reading,
    answer,
    judge_bounds,
    num_answers,
    verdict_of,
)
from compile_hud.runner.analysis.comparison.runs import DEFAULT_FAIL_ABOVE, OUTCOME
from compile_hud.runner.analysis.repro import case_options, command_line, isolate_command
from compile_hud.runner.bisect.record import (
    BisectEnding,
    Bisection,
    BisectRevision,
    BisectStep,
    RevisionAxis,
)
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.format import clock, quantity

_NAMES = {
    Verdict.REGRESSION: ("first bad revision", "last good revision"),
    Verdict.IMPROVEMENT: ("first revision with the improvement", "last revision without it"),
}
_NUM_DIGITS = 10
_NUM_KERNELS, _MAX_LABEL = 5, 80


def revision_text(revision: BisectRevision) -> str:
    """Return the name of `revision` with its title."""
    if revision.authored_at:
        return f'{revision.name[:_NUM_DIGITS]} "{revision.title}"'
    return f"{revision.name} ({revision.title})" if revision.title else revision.name


def change_text(reading: Reading) -> str:
    """Return the change that `reading` shows, with its interval and pairs of launches."""
    pairs = f"{reading.num_pairs} {'pair' if reading.num_pairs == 1 else 'pairs'}"
    if reading.metric == OUTCOME:
        return f"{reading.baseline_outcome} -> {reading.candidate_outcome}, {pairs}"
    levels = " -> ".join(
        quantity(level, unit=reading.unit) for level in (reading.baseline, reading.candidate)
    )
    if not reading.ratio or not reading.low or not reading.high or reading.low == reading.high:
        return f"{levels}, {pairs}"
    low, high = _percent(reading.low), _percent(reading.high)
    return f"{_percent(reading.ratio)} % [{low}, {high}], {levels}, {pairs}"


def ends_text(known: Bisection) -> str:
    """Return the text on whether the ends of `known` differ, and on the next steps."""
    ends = known.ends
    assert ends is not None
    change = f"{metric_label(ends.metric)} {change_text(ends)}"
    floor = f"{100 * known.limits.floor:g} %"
    match judge_bounds(ends, floor=known.limits.floor):
        case BoundsVerdict.DIFFER:
            num_steps = num_answers(len(known.revisions)) - 2
            steps = (
                "1 step follows" if num_steps == 1 else f"about {counted(num_steps, 'step')} follow"
            )
            return f"the ends differ: {change}, {verdict_of(ends)}; {steps}"
        case BoundsVerdict.UNCLEAR:
            return (
                f"it is not clear whether the ends differ: {change}. More time (--step-minutes,"
                " --max-launches) or a quieter machine may help"
            )
    if ends.low and ends.high and not ends.low <= 1 <= ends.high and ends.low != ends.high:
        return (
            f"the ends differ by less than the floor of {floor}: {change}. A smaller --floor"
            " searches it"
        )
    return f"the ends do not differ: {change}; a change of {floor} would have shown"


def answer_text(known: Bisection, step: BisectStep) -> str:
    """Return the text on the result of `step`."""
    took = clock(step.took_s)
    if step.mark is Mark.SKIPPED:
        shown = "" if step.reading is None else f" ({change_text(step.reading)})"
        return f"skipped: {step.reason}{shown}, {took}"
    assert step.reading is not None
    assert known.ends is not None
    return f"as the {step.mark} end: {change_text(step.reading)}, {took}"


def conclusion(known: Bisection) -> Iterator[str]:
    """Yield the lines with the result of `known`, which has ended."""
    ending, evidence, ends = known.ending, known.evidence, known.ends
    assert ends is not None
    if ending in (BisectEnding.SAME_ENDS, BisectEnding.UNCLEAR_ENDS):
        yield ends_text(known)
        return
    assert evidence is not None
    first, last = _NAMES[verdict_of(ends)]
    suspects, revisions = known.suspects, known.revisions
    if ending is BisectEnding.FOUND:
        yield f"{first}: {revision_text(revisions[suspects.first_bad])}"
        yield from _signature(revisions[suspects.first_bad])
    elif ending is BisectEnding.RANGE:
        yield f"{first}: one of {suspects.num_left}, since the others are undecided"
        for index in range(suspects.last_good + 1, suspects.first_bad + 1):
            yield f"  {revision_text(revisions[index])}"
    else:
        yield (
            "no single revision: the search ended at"
            f" {revision_text(revisions[suspects.first_bad])}, {_doubt(known)}"
        )
    yield f"{last}: {revision_text(revisions[suspects.last_good])}"
    change = f"{metric_label(evidence.metric)} {change_text(evidence)}"
    yield f"change: {change} of launches, {verdict_of(ends)}"
    if ending is BisectEnding.FOUND:
        yield from _kernel_lines(evidence)
    if evidence is not ends:
        yield f"between the ends: {change_text(ends)}"
    for step in known.steps:
        if step.mark is Mark.SKIPPED:
            yield f"skipped: {revision_text(revisions[step.index])}: {step.reason}"
    error = error_bound(known)
    if error is not None:
        answers = counted(_num_answers_so_far(known), "answer")
        yield f"chance of a wrong answer: at most {100 * error:.1f} % in {answers}"
    yield f"reproduce: {repro(known)}"


def _kernel_lines(evidence: Reading) -> Iterator[str]:
    """Yield the cause, and a line for each of the largest changes of kernels."""
    kernels = evidence.kernels or {"cause": "", "rows": ()}
    causes = [text for text in (evidence.model_code, kernels["cause"]) if text]
    if causes:
        yield f"cause: {'; '.join(causes)}"
    for row in kernels["rows"][:_NUM_KERNELS]:
        contribution = f"{signed(row['contribution_us'])} us"
        label = shortened(one_line(row["label"]), limit=_MAX_LABEL)
        yield f"  {contribution:>12}  {row['class']}  {label}: {one_line(row['text'])}"


def _doubt(known: Bisection) -> str:
    assert known.evidence is not None
    assert known.ends is not None
    if answer(known.evidence, bounds=known.ends) is None:
        return "and whether that carries more than half of the change is not clear"
    return (
        "which does not carry more than half of the change: it came in several steps, or an answer"
        " was wrong"
    )


def _num_answers_so_far(known: Bisection) -> int:
    """Return the number of answers: the ends, steps that were not skipped, the last check."""
    num_steps = sum(step.mark is not Mark.SKIPPED for step in known.steps)
    return 1 + num_steps + (known.check is not None)


def error_bound(known: Bisection) -> float | None:
    """Return the highest probability that any of the answers is wrong, by their own assumptions.

    It is None for counts and outcomes, which are not sampled.
    """
    assert known.ends is not None
    metric = known.ends.metric
    if metric == OUTCOME or METRICS[metric].is_exact:
        return None
    return _num_answers_so_far(known) * SEARCH_ERROR / num_answers(len(known.revisions))


def repro(known: Bisection) -> str:
    """Return the command that measures the first bad revision against the last good one again."""
    suspects = known.suspects
    names = [known.revisions[index].name for index in (suspects.last_good, suspects.first_bad)]
    options = [*_revision_options(known, names), *case_options(known.case)]
    if known.metric is not None:
        options.append(("metric", known.metric))
    if known.limits.floor != DEFAULT_FAIL_ABOVE:
        options.append(("floor", f"{100 * known.limits.floor:g}%"))
    nightly = " --nightly" if known.origin.get("nightly") else ""
    return command_line("bisect", options) + nightly


def next_commands(known: Bisection) -> list[str]:
    """Return the command that goes on from the result of `known`, none if there is nothing left."""
    if known.ending is BisectEnding.SAME_ENDS:
        return []
    if known.ending is not BisectEnding.FOUND:
        limits = known.limits
        minutes = limits.step_s / 60
        more = f"--max-launches {2 * limits.max_launches} --step-minutes {2 * minutes:g}"
        return [f"{repro(known)} {more}"]
    last_good, first_bad = (
        known.revisions[index].name
        for index in (known.suspects.last_good, known.suspects.first_bad)
    )
    if known.axis is RevisionAxis.COMMIT:
        return [shlex.join(["git", "-C", known.origin["repository"], "show", first_bad])]
    if known.axis is RevisionAxis.TOOLCHAIN:
        return [isolate_command(last_good, first_bad, case_options(known.case))]
    return []


def _revision_options(known: Bisection, names: Sequence[str]) -> list[tuple[str, str]]:
    if known.axis is RevisionAxis.TOOLCHAIN:
        return [("toolchain", name) for name in names]
    if known.axis is RevisionAxis.TORCH:
        options = [(key.replace("_", "-"), known.origin[key]) for key in ("python", "index_url")]
        return [*(("torch", name) for name in names), *(item for item in options if item[1])]
    first, last = names
    where = [("repo", known.origin["repository"]), ("good", first), ("bad", last)]
    return [
        *where,
        *([("toolchain", known.toolchain)] if known.toolchain != CURRENT_TOOLCHAIN else []),
    ]


def _signature(revision: BisectRevision) -> Iterator[str]:
    if revision.authored_at:
        yield f"  {revision.author}, {revision.authored_at}, {revision.name}"


def _percent(ratio: float) -> str:
    return signed(100 * (ratio - 1))
