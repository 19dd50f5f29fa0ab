"""The mean of a mode over the models of one phase, the same on every surface.

Method: a subject is a model in one shape and dtype. The cohort are the subjects with a number in
every compared mode. The number of a model is the geometric mean over its subjects in the cohort.
The number of a mode is the geometric mean over the models. A geometric mean of ratios does not
depend on the reference side (Fleming and Wallace, CACM 1986). A mode that fails for the hard models
does not look faster for it. Two kinds of modes are not compared, else they would shrink the cohort.
A sparse mode has numbers of less than half of the models. A stand-in has the numbers of one other
mode only. Their mean is that of their own part of the cohort.
Assumptions: every model weighs the same, whatever its number of shapes. Subjects vary independently
of each other, which makes the interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.stats.cohort import MIN_SHARE
from compile_hud.runner.analysis.stats.estimates import Estimate

OWN = -1


@dataclass(frozen=True, slots=True, order=True)
class ModelShape:
    """A model in one shape and dtype; `detail` names both."""

    model: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ModeNumber:
    """A number of a mode, and the other mode that ran or has the same code; "" for none."""

    estimate: Estimate
    runs_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeMeans:
    """The mean of each mode over the `num_common` models of the cohort.

    A mode has no mean if nothing is common to all. `stand_ins` have the numbers of another mode,
    and `sparse` the number of their models. Neither is compared.
    """

    means: Mapping[str, Estimate]
    cohort: tuple[ModelShape, ...]
    stand_ins: Mapping[str, str]
    sparse: Mapping[str, int]

    @property
    def num_common(self) -> int:
        """Return the number of models in the cohort."""
        return len({subject.model for subject in self.cohort})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeanLogs:
    """Logarithms of the means by mode and run, NaN for none, and the distances of their ends.

    `cohort` is by mode, run and subject: whether the subject counts.
    """

    values: np.ndarray
    below: np.ndarray
    above: np.ndarray
    cohort: np.ndarray


def mode_means(columns: Mapping[str, Mapping[ModelShape, ModeNumber]]) -> ModeMeans:
    """Return the mean of each mode; `columns` are by mode and subject, only of ok results."""
    modes = list(columns)
    subjects = sorted({subject for column in columns.values() for subject in column})
    others = {item.runs_as for column in columns.values() for item in column.values()}
    names = [*modes, *sorted(others - {"", *modes})]
    numbers = np.full((3, len(modes), 1, len(subjects)), np.nan)
    sources = np.full((len(modes), 1, len(subjects)), OWN)
    for row, mode in enumerate(modes):
        for column, subject in enumerate(subjects):
            if item := columns[mode].get(subject):
                estimate = item.estimate
                numbers[:, row, 0, column] = (estimate.value, estimate.low, estimate.high)
                sources[row, 0, column] = names.index(item.runs_as) if item.runs_as else OWN
    models = model_numbers([subject.model for subject in subjects])
    has = is_number(numbers)
    stand_ins = stand_in_sources(has, sources)
    logs = mean_logs(numbers, stand_ins=stand_ins, models=models)
    is_sparse = _is_sparse(has & (stand_ins == OWN)[:, :, None], models)[:, 0]
    counts = count_models(has, models)[:, 0]
    compared = [row for row in range(len(modes)) if counts[row] and stand_ins[row, 0] == OWN]
    compared = [row for row in compared if not is_sparse[row]]
    cohort = logs.cohort[compared, 0].all(axis=0) if compared else np.zeros(len(subjects), bool)
    return ModeMeans(
        means={
            mode: _estimate(logs, row)
            for row, mode in enumerate(modes)
            if not np.isnan(logs.values[row, 0])
        },
        cohort=tuple(subjects[index] for index in np.flatnonzero(cohort)),
        stand_ins={
            mode: names[stand_ins[row, 0]]
            for row, mode in enumerate(modes)
            if stand_ins[row, 0] != OWN
        },
        sparse={mode: int(counts[row]) for row, mode in enumerate(modes) if is_sparse[row]},
    )


def _estimate(logs: MeanLogs, row: int) -> Estimate:
    value = logs.values[row, 0]
    ends = (value, value - logs.below[row, 0], value + logs.above[row, 0])
    return Estimate(*(float(np.exp(end)) for end in ends))


def model_numbers(models: Sequence[str]) -> np.ndarray:
    """Return the number of the model of each subject, counted from 0."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(models))}
    return np.array([numbers[name] for name in models], dtype=np.int64)


def is_number(numbers: np.ndarray) -> np.ndarray:
    """Return for each median, lower and upper bound whether it counts: all are above 0."""
    return np.asarray((numbers[0] > 0) & (numbers[1] > 0))


def mean_logs(numbers: np.ndarray, *, stand_ins: np.ndarray, models: np.ndarray) -> MeanLogs:
    """Return the means of medians, lower and upper bounds by mode, run and subject.

    NaN is a subject without a number. `models` has the number of the model of each subject.
    """
    has = is_number(numbers)
    logs, low, high = (np.log(np.where(has, part, 1.0)) for part in numbers)
    cohort = common(has, stand_ins=stand_ins, models=models)
    weights = model_weights(cohort, models)
    values = (weights * logs).sum(axis=2)
    values[~cohort.any(axis=2)] = np.nan
    return MeanLogs(
        values=values,
        below=np.sqrt(((weights * (logs - low)) ** 2).sum(axis=2)),
        above=np.sqrt(((weights * (high - logs)) ** 2).sum(axis=2)),
        cohort=cohort,
    )


def common(has: np.ndarray, *, stand_ins: np.ndarray, models: np.ndarray) -> np.ndarray:
    """Return for each mode, run and subject whether it counts: every compared mode has it.

    A mode that is not compared counts with its own part of the cohort. `stand_ins` is by mode and
    run, and OWN for a mode of its own.
    """
    is_own = stand_ins == OWN
    is_sparse = _is_sparse(has & is_own[:, :, None], models)
    is_compared = has.any(axis=2) & is_own & ~is_sparse
    is_common = (has | ~is_compared[:, :, None]).all(axis=0)
    return np.asarray(has & is_common & is_compared.any(axis=0)[:, None])


def _is_sparse(has: np.ndarray, models: np.ndarray) -> np.ndarray:
    """Return for each mode and run whether it has numbers of less than MIN_SHARE of the models.

    A model with numbers for half of its shapes counts half.
    """
    weights = model_weights(np.asarray(has.any(axis=0)), models)
    # The sum of many weights may miss the share by a rounding.
    share = (has * weights).sum(axis=2) + 1e-9
    return np.asarray(has.any(axis=2) & (share < MIN_SHARE))


def stand_in_sources(has: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Return for each mode and run the one other mode whose numbers it has, else OWN.

    `sources` has the number of that mode for each subject. If it has no number itself, the first
    mode with its numbers is compared in its stead.
    """
    num_modes, num_runs = has.shape[:2]
    own = np.arange(num_modes)[:, None, None]
    ran = np.where(sources == OWN, own, sources)
    num_names = max(num_modes, int(ran.max(initial=0)) + 1)
    first = np.where(has, ran, num_names).min(axis=2, initial=num_names)
    last = np.where(has, ran, OWN).max(axis=2, initial=OWN)
    runs = np.arange(num_runs)
    is_measured = np.zeros((num_names, num_runs), dtype=bool)
    is_measured[:num_modes] = (has & (ran == own)).any(axis=2)
    stand_ins = np.full((num_modes, num_runs), OWN)
    for mode in range(num_modes):
        is_other = (first[mode] == last[mode]) & (first[mode] != mode)
        source = np.where(is_other, first[mode], 0)
        stand_ins[mode] = np.where(is_other & is_measured[source, runs], source, OWN)
        is_measured[source[is_other], runs[is_other]] = True
    return stand_ins


def count_models(mask: np.ndarray, models: np.ndarray) -> np.ndarray:
    """Return the number of models with a subject in `mask`, whose last axis is the subjects."""
    return np.asarray((_per_model(mask, models) > 0).sum(axis=-1))


def model_weights(mask: np.ndarray, models: np.ndarray) -> np.ndarray:
    """Return the weight of each subject of `mask`, its last axis: every model weighs the same."""
    per_model = _per_model(mask, models)
    num_models = np.maximum((per_model > 0).sum(axis=-1, keepdims=True), 1)
    return np.asarray(mask / (np.maximum(per_model, 1.0)[..., models] * num_models))


def _per_model(mask: np.ndarray, models: np.ndarray) -> np.ndarray:
    """Return the number of subjects of each model in `mask`."""
    counts = np.zeros((*mask.shape[:-1], models.max(initial=-1) + 1))
    if models.size:
        # A product of matrices would use threads, which wait for each other on a busy machine.
        order = np.argsort(models, kind="stable")
        present, starts = np.unique(models[order], return_index=True)
        counts[..., present] = np.add.reduceat(mask[..., order], starts, axis=-1, dtype=float)
    return counts
