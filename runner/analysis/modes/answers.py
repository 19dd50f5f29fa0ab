"""The answer for a group of results as text: page and terminal show the same words.

A recommended mode may fail for a model, or not be measured for it. That model is then in the title
and in the first sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compile_hud.db.shared.text import counted, counted_of, listed, signed, significant
from compile_hud.runner.analysis.modes.choice import EAGER, LONG_LIVED_CALLS, MIN_GAIN, ModeCost
from compile_hud.runner.analysis.modes.records import (
    Answer,
    CellState,
    ModeDecision,
    ModeGroup,
    ModelException,
    ModelRow,
)
from compile_hud.runner.analysis.stats.estimates import Estimate

# A sentence has room for so many names; the table by model has all.
_NUM_NAMED = 4
# At a call per second a process takes more than a day for so many: the title says so.
_MANY_CALLS = 1e5
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def answer_for(group: ModeGroup) -> Answer:
    """Return the answer for `group` as text."""
    return Answer(
        title=_TITLES[group.recommendation.decision](group),
        sentences=tuple(
            sentence
            for part in (_SENTENCES[group.recommendation.decision], _omissions)
            for sentence in part(group)
        ),
    )


def summary_of(groups: Sequence[ModeGroup]) -> str:
    """Return one line on all groups; of a single one it is the title of its answer."""
    if len(groups) == 1:
        return answer_for(groups[0]).title
    shipped = [group for group in groups if group.recommendation.decision is ModeDecision.SHIP]
    if not shipped:
        return f"No mode is recommended in any of {counted(len(groups), 'group')}"
    modes = {shipped_mode(group) for group in shipped}
    has_exceptions = any(group.recommendation.exceptions for group in shipped)
    if len(shipped) == len(groups) and len(modes) == 1 and not has_exceptions:
        return f"Ship {modes.pop()} in all {counted(len(groups), 'group')}"
    if len(shipped) == len(groups):
        return f"Compiling is worth it in all {counted(len(groups), 'group')}"
    return f"Compiling is worth it in {counted_of(len(shipped), len(groups), 'group')}"


def shipped_mode(group: ModeGroup) -> str:
    """Return the mode to set in the code, "" for not compiling."""
    recommendation = group.recommendation
    if recommendation.mode is None:
        return ""
    return recommendation.runs_as or recommendation.mode.variant


def ratio_text(ratio: Estimate) -> str:
    """Return a ratio with its interval: `1.34x [1.31, 1.37]`."""
    value, low, high = ratio.value, ratio.low, ratio.high
    # The bounds get more decimals if two equal texts would hide the uncertainty.
    ends = next(
        (
            ends
            for decimals in (2, 3, 4)
            if len(set(ends := (f"{low:.{decimals}f}", f"{high:.{decimals}f}"))) == 2
        ),
        None,
    )
    return f"{value:.2f}x" + (f" [{', '.join(ends)}]" if ends else "")


def gain_text(speedup: Estimate) -> str:
    """Return the gain of a speedup in percent with its interval: `34 % [31, 37]`."""
    value, low, high = (100 * (bound - 1) for bound in (speedup.value, speedup.low, speedup.high))
    decimals = 0 if high - low >= 2 else 1
    # Adding 0.0 turns the minus that rounding leaves before a zero into a plus.
    texts = [f"{round(number, decimals) + 0.0:.{decimals}f}" for number in (value, low, high)]
    return f"{texts[0]} %" + (f" [{texts[1]}, {texts[2]}]" if texts[1] != texts[2] else "")


def calls_text(calls: Estimate) -> str:
    """Return a number of calls with its interval: `5,000 [4,800, 5,200]`."""
    texts = [about(number) for number in (calls.value, calls.low, calls.high)]
    return texts[0] + (f" [{texts[1]}, {texts[2]}]" if texts[1] != texts[2] else "")


def front_text(mode: ModeCost) -> str:
    """Return whether a mode is on the Pareto front; of one that is not, the modes that beat it."""
    if not mode.is_on_front:
        return f"no: {', '.join(mode.beaten_by)}"
    return "yes" if mode.is_on_line else "yes, for its memory"


def about(calls: float) -> str:
    """Return a number of calls with two significant digits: `1,300`, `45 million`."""
    rounded = float(f"{calls:.1e}")
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if rounded >= size:
            return f"{significant(rounded / size, digits=2)} {name}"
    return f"{rounded:,.0f}"


def time_text(seconds: float) -> str:
    """Return a time with three digits: `31.5 s`, `850 ms`."""
    factor, unit = next((step for step in _TIME_UNITS if seconds >= step[0]), _TIME_UNITS[-1])
    return f"{significant(seconds / factor)} {unit}"


def _calls_in_words(calls: int) -> str:
    return f"{calls:,} call{'' if calls == 1 else 's'}"


def _ship_title(group: ModeGroup) -> str:
    recommendation = group.recommendation
    title = f"Ship {shipped_mode(group)}"
    calls = recommendation.mode.break_even if recommendation.mode else None
    if recommendation.calls is not None:
        title += f" for {_calls_in_words(recommendation.calls)} per process"
    elif calls is not None and calls.value >= _MANY_CALLS:
        title += f" for processes of more than {about(calls.value)} calls"
    models = [item.model for item in recommendation.exceptions]
    if not models:
        return title
    names = ", ".join(models) if len(models) <= _NUM_NAMED else counted(len(models), "model")
    return f"{title}, except for {names}"


def _no_gain_title(group: ModeGroup) -> str:
    best = group.recommendation.best
    if best is None or best.speedup.value <= 1:
        return "No mode is worth compiling for here: none is faster than eager"
    return f"No mode is worth compiling for here: the best gain is {gain_text(best.speedup)}"


def _few_calls_title(group: ModeGroup) -> str:
    best = group.recommendation.best
    needed = "" if best is None or best.break_even is None else about(best.break_even.value)
    after = f": {best.variant} takes {needed}" if best and needed else ""
    return f"No mode recovers its compile time in {_expected_calls(group)}{after}"


def _expected_calls(group: ModeGroup) -> str:
    calls = group.recommendation.calls
    return f"{about(LONG_LIVED_CALLS)} calls" if calls is None else _calls_in_words(calls)


def _no_cohort_title(_group: ModeGroup) -> str:
    return "No mode can be recommended"


_TITLES = {
    ModeDecision.SHIP: _ship_title,
    ModeDecision.NO_GAIN: _no_gain_title,
    ModeDecision.TOO_FEW_CALLS: _few_calls_title,
    ModeDecision.NO_COHORT: _no_cohort_title,
}


def _ship_sentences(group: ModeGroup) -> list[str]:
    mode = group.recommendation.mode
    assert mode is not None
    return [
        *_exceptions(group.recommendation.exceptions, variant=mode.variant),
        *_reasons(mode, group),
        *_equals(mode, group),
        *_calls(mode, group),
        *_limits(mode, group),
    ]


def _no_gain_sentences(group: ModeGroup) -> list[str]:
    best = group.recommendation.best
    assert best is not None
    return [
        f"{_cohort(group)}, {best.variant} is the fastest mode: {ratio_text(best.speedup)} as fast"
        " as eager.",
        f"A gain counts if it is at least {100 * MIN_GAIN:.0f} % and its interval is above 0.",
        *_single_models(group),
    ]


def _few_calls_sentences(group: ModeGroup) -> list[str]:
    best = group.recommendation.best
    assert best is not None
    needed = "" if best.break_even is None else f", {calls_text(best.break_even)} calls"
    return [
        f"{_cohort(group)}, {best.variant} is {ratio_text(best.speedup)} as fast as eager.",
        f"It recovers its {time_text(best.compile_s.value)} of {group.cache} compile time after the"
        f" fewest calls{needed}.",
        f"A process of {_expected_calls(group)} is too short.",
        *_single_models(group),
    ]


def _no_cohort_sentences(group: ModeGroup) -> list[str]:
    return [
        f"No model has a speedup and a {group.cache} compile time in every mode, so the modes"
        " cannot be compared.",
        *_single_models(group),
        "A filter that leaves fewer models out, or the other compile time, may show more.",
    ]


_SENTENCES = {
    ModeDecision.SHIP: _ship_sentences,
    ModeDecision.NO_GAIN: _no_gain_sentences,
    ModeDecision.TOO_FEW_CALLS: _few_calls_sentences,
    ModeDecision.NO_COHORT: _no_cohort_sentences,
}


def _exceptions(exceptions: Sequence[ModelException], *, variant: str) -> list[str]:
    """Return a sentence for each replacement of the mode, failures first, with the models."""
    replacements: dict[tuple[bool, str], list[ModelException]] = {}
    for item in sorted(exceptions, key=lambda item: not item.is_failure):
        name = item.mode.variant if item.mode else EAGER
        replacements.setdefault((item.is_failure, name), []).append(item)
    return [
        f"{variant} {'fails' if is_failure else 'was not measured'} for"
        f" {', '.join(_exception_text(item) for item in items)}:"
        f" {'do not compile there' if name == EAGER else f'use {name} there'}."
        for (is_failure, name), items in replacements.items()
    ]


def _exception_text(item: ModelException) -> str:
    texts = [item.reason] if item.reason else []
    if item.mode is not None:
        texts.append(f"{item.mode.variant} gives {ratio_text(item.mode.speedup)}")
    return f"{item.model} ({'; '.join(texts)})" if texts else item.model


def _reasons(mode: ModeCost, group: ModeGroup) -> list[str]:
    """Return the gain of the recommended mode, its cost, and the modes that only cost more."""
    cost = f"It takes {time_text(mode.compile_s.value)} of {group.cache} compile time"
    if mode.memory is not None:
        cost += f" and {signed(100 * (mode.memory.value - 1))} % peak memory"
    sentences = [
        f"{_cohort(group)}, it is {ratio_text(mode.speedup)} as fast as eager.",
        f"{cost}.",
    ]
    others = [
        other.variant
        for other in group.choice.modes
        if mode.variant in other.beaten_by and other.speedup.high >= mode.speedup.low
    ]
    if others:
        text = "differs from it in speed within noise and costs more"
        if len(others) > 1:
            text = "differ from it in speed within noise and cost more"
        sentences.append(f"{', '.join(others)} {text}.")
    return sentences


def _equals(mode: ModeCost, group: ModeGroup) -> list[str]:
    """Return sentences on the modes that the recommended one replaces because it is simpler."""
    twins = [name for name, other in group.choice.twins.items() if other == mode.variant]
    ties = [name for name, other in group.choice.ties.items() if other == mode.variant]
    sentences = []
    for name in twins:
        ran = [row.cells[name].runs_as for row in group.rows if name in row.cells]
        sentences.append(
            f"{name} has the code of {mode.variant} for {ran.count(mode.variant)} of"
            f" {counted(len(ran), 'model')}."
        )
    if ties:
        verb = "has" if len(ties) == 1 else "have"
        sentences.append(
            f"{', '.join(ties)} {verb} no relevant advantage over {mode.variant}, the simpler mode."
        )
    return sentences


def _calls(mode: ModeCost, group: ModeGroup) -> list[str]:
    """Return sentences on the calls that repay compiling, and on those for which others win."""
    recommendation, spans = group.recommendation, group.choice.spans
    sentences = []
    if mode.break_even is not None:
        sentences.append(
            f"Its compile time is recovered after {calls_text(mode.break_even)} calls per process."
        )
    if recommendation.calls is not None and recommendation.relative_time is not None:
        sentences.append(
            f"Of all modes it takes the least time for {_calls_in_words(recommendation.calls)},"
            f" compiling included: {recommendation.relative_time:.2f}x that of eager."
        )
    index = next((i for i, span in enumerate(spans) if span.variant == mode.variant), None)
    if index is None:
        return sentences
    if index and spans[index - 1].variant != EAGER:
        calls, other = about(spans[index].from_calls), spans[index - 1].variant
        sentences.append(f"Below {calls} calls, {_with_failures(other, group)} takes less time.")
    if index + 1 < len(spans):
        calls, other = about(spans[index + 1].from_calls), spans[index + 1].variant
        sentences.append(f"From {calls} calls on, {_with_failures(other, group)} takes less time.")
    return sentences


def _with_failures(variant: str, group: ModeGroup) -> str:
    """Return a mode with the models for which it fails: `max-autotune (fails for unet)`."""
    failing = [row.model for row in _failing(variant, group)]
    return f"{variant} (fails for {_named(failing)})" if failing else variant


def _failing(variant: str, group: ModeGroup) -> list[ModelRow]:
    return [
        row
        for row in group.rows
        if variant in row.cells and row.cells[variant].state is CellState.FAILING
    ]


def _limits(mode: ModeCost, group: ModeGroup) -> list[str]:
    """Return sentences on the models for which the recommendation does not hold."""
    cells = [(row, row.cells.get(mode.variant)) for row in group.rows]
    with_cost = [(row, cell, cell.cost) for row, cell in cells if cell and cell.cost]
    slower = [row.model for row, _, cost in with_cost if cost.speedup.high < 1]
    unclear = [
        row.model for row, _, cost in with_cost if cost.speedup.low <= 1 <= cost.speedup.high
    ]
    better = [
        row.model
        for row, _, cost in with_cost
        if group.recommendation.calls is None
        and any(speedup.low > cost.speedup.high for speedup in group.speedups(row))
    ]
    without = [row.model for row, cell in cells if cell and cell.state is CellState.NO_NUMBERS]
    other_mode = [row.model for row, cell, _ in with_cost if cell.runs_as and not cell.is_same_code]
    ships = group.recommendation.runs_as
    pairs = [
        (slower, "Slower than eager for {}: do not compile there."),
        (unclear, "No significant speedup for {}."),
        (better, "Another mode is faster for {}: the results by model show which."),
        (without, "No numbers for {} in this mode."),
        ([] if ships else other_mode, "For {} the device ran another mode under this name."),
    ]
    sentences = [text.format(_named(models)) for models, text in pairs if models]
    if ships:
        sentences.append(
            f"The device ran {ships} under the name {mode.variant}, whose numbers these are."
        )
    return sentences


def _single_models(group: ModeGroup) -> list[str]:
    """Return a sentence on the models that gain from a mode while the group does not."""
    if group.recommendation.decision is not ModeDecision.NO_COHORT and len(group.rows) == 1:
        return []
    texts = [f"{row.model} ({row.best})" for row in group.rows if row.best]
    return [f"By itself a mode is worth it for {_named(texts)}."] if texts else []


def _omissions(group: ModeGroup) -> list[str]:
    """Return sentences on the modes that are not compared."""
    sentences = []
    if group.unavailable:
        is_single = len(group.unavailable) == 1
        verb = "is" if is_single else "are"
        sentences.append(f"{', '.join(group.unavailable)} {verb} not available on this device.")
    for variant in group.stand_ins:
        text = group.stand_in_text(variant)
        verb = "is the " if text.startswith("same") else ""
        sentences.append(f"{variant} {verb}{text}.")
    num_models = len(group.rows)
    for variant, number in group.sparse.items():
        sentences.append(
            f"{variant} is not compared: it has numbers of {number} of"
            f" {counted(num_models, 'model')}{_failures(variant, group)}."
        )
    return [*sentences, *_other_revisions(group)]


def _other_revisions(group: ModeGroup) -> list[str]:
    """Return a sentence on the models whose modes were measured at different revisions."""
    models: dict[str, list[str]] = {}
    for row in group.rows:
        for name in {name for cell in row.cells.values() for name in cell.other_revisions}:
            models.setdefault(name, []).append(row.model)
    return [
        f"Not all modes of {_named(named)} were measured with the same {name}: measure them in one"
        " run to compare them."
        for name, named in sorted(models.items())
    ]


def _failures(variant: str, group: ModeGroup) -> str:
    failing = [f"{row.model} ({row.cells[variant].reason})" for row in _failing(variant, group)]
    return f" and fails for {_named(failing)}" if failing else ""


def _named(models: Iterable[str]) -> str:
    return listed(list(dict.fromkeys(models)), limit=_NUM_NAMED)


def _cohort(group: ModeGroup) -> str:
    cohort, num_models = group.choice.cohort, len(group.rows)
    if len(cohort) == num_models:
        return (
            f"Over {_named(cohort)}"
            if num_models <= _NUM_NAMED
            else f"Over {counted(num_models, 'model')}"
        )
    models = counted_of(len(cohort), num_models, "model")
    return f"Over the {models} with numbers in every compared mode"
