"""The differences between the environments of an alert's last good and first bad run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compile_hud.db.records.results import Run
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.text import listed, short_revision
from compile_hud.runner.analysis.comparison.runs import (
    SOFTWARE_FACTS,
    FactDifference,
    environment_differences,
)

# The facts of most interest to people, in this order, with their names.
_NAMES = {
    "torch": "torch",
    "triton_version": "triton",
    "driver_version": "driver",
    "cuda_version": "cuda",
    "python_version": "python",
    "os": "os",
    "cxx_compiler": "cxx_compiler",
}
MODEL_PREFIX, PACKAGE_PREFIX, WARNING_PREFIX = "models.", "packages.", "warnings."
# The configuration of a shape: sizes, the mask of the inputs, their memory format.
CONFIG_PREFIX = "config."
_PREFIXES = {"model_commits": MODEL_PREFIX, "packages": PACKAGE_PREFIX}
# These facts are part of another fact, are the revision itself, or mean nothing. A container has
# another host name each night, and the machine has its own name. The origin of an imported history
# is no property of its runs.
_REPORTED_ELSEWHERE = ("torch_version", "torch_git", "python_minor", "hostname", "imported")
# These packages come with torch, which the revision names already.
_TORCH_PACKAGES = ("torch", "triton")
# A sentence lists at most this many differences; the others are counted.
NUM_LISTED = 4

# A name, and its values before and after; None for a missing one.
EnvironmentDiff = Mapping[str, Sequence[Any]]


def environment_diff(before: Run, *, after: Run) -> dict[str, list[Any]]:
    """Return all differences, the most relevant first, as JSON: `{name: [before, after]}`.

    Packages are `packages.NAME` and the commits of models `models.NAME`. It is empty if no recorded
    fact differs.
    """
    differences = {}
    if before.revision != after.revision:
        has_torch = "torch_version" in before.environment
        differences["torch" if has_torch else "revision"] = [before.revision, after.revision]
    for item in _flat(environment_differences(before, candidate=after)):
        differences.setdefault(item.name, [item.baseline, item.candidate])
    return dict(sorted(differences.items(), key=lambda item: _rank(item[0])))


def warnings_diff(before: Sequence[RunWarning], *, after: Sequence[RunWarning]) -> dict[str, Any]:
    """Return the warnings that only one of two results of a case has, as `warnings.CODE`."""
    sides = [{item.code: item.text for item in side} for side in (before, after)]
    return {
        f"{WARNING_PREFIX}{code}": [side.get(code) for side in sides]
        for code in sorted({*sides[0], *sides[1]})
        if (code in sides[0]) != (code in sides[1])
    }


def config_diff(before: Mapping[str, Any], *, after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the differing values of two configurations of a case, as `config.KEY`."""
    return {
        f"{CONFIG_PREFIX}{key}": [before.get(key), after.get(key)]
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    }


def environment_text(difference: EnvironmentDiff) -> str:
    """Return the difference in words, `torch 2.13.0 -> 2.14.0, numpy 2.1 -> 2.2 and 3 more`.

    Warnings are left out: they belong to a result, not to the environment. Empty for none.
    """
    phrases = [
        f"{name.removeprefix(PACKAGE_PREFIX)} {_text(before)} -> {_text(after)}"
        for name, (before, after) in difference.items()
        if not name.startswith(WARNING_PREFIX)
    ]
    return listed(phrases, limit=NUM_LISTED)


def _flat(differences: Sequence[FactDifference]) -> Iterator[FactDifference]:
    for item in differences:
        if item.name in _REPORTED_ELSEWHERE:
            continue
        if item.name not in SOFTWARE_FACTS:
            name = _NAMES.get(item.name, _short(item.name))
            yield FactDifference(name=name, baseline=item.baseline, candidate=item.candidate)
            continue
        # A run that predates these facts lacks them, which is no difference.
        if isinstance(item.baseline, Mapping) and isinstance(item.candidate, Mapping):
            for key in item.baseline:
                if item.name != "packages" or key not in _TORCH_PACKAGES:
                    yield FactDifference(
                        name=f"{_PREFIXES[item.name]}{key}",
                        baseline=item.baseline[key],
                        candidate=item.candidate[key],
                    )


def _short(fact: str) -> str:
    """Return the package whose version a fact has, so that it is not listed twice."""
    package, _, rest = fact.rpartition("_")
    return f"{PACKAGE_PREFIX}{package}" if rest == "version" and package else fact


def _rank(name: str) -> tuple[int, str]:
    order = ("revision", *_NAMES.values())
    if name in order:
        return order.index(name), name
    is_model, is_package = name.startswith(MODEL_PREFIX), name.startswith(PACKAGE_PREFIX)
    return len(order) + (0 if is_model else 2 if is_package else 1), name


def _text(value: Any) -> str:
    return "none" if value is None else short_revision(str(value))
