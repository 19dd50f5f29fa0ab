"""The case of a run that a name stands for."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.results import CaseResult
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.models_zoo.catalog.spec import near_names

# A result of a run, whole or without its samples.
_Result = TypeVar("_Result", CaseResult, ResultSummary)
# A message lists at most this many cases of a run.
_MAX_NAMED = 10


def find_case(results: Sequence[_Result], name: str, *, run: str) -> _Result:
    """Return the result whose case has the key `name`, or the only one that it fits as a glob.

    A name without a glob fits keys that have it anywhere. `run` is the id of the run of `results`.
    Raises NotFoundError.
    """
    exact = [result for result in results if result.case.key == name]
    pattern = case_glob(name)
    matches = exact or [result for result in results if fnmatchcase(result.case.key, pattern)]
    if len(matches) == 1:
        return matches[0]
    keys = [result.case.key for result in matches or results]
    rest = f" and {len(keys) - _MAX_NAMED} more" if len(keys) > _MAX_NAMED else ""
    named = f"{', '.join(keys[:_MAX_NAMED])}{rest}"
    if not matches:
        near = near_names(name, {part for key in keys for part in key.split("/")})
        hint = f" Did you mean {near}?" if near else ""
        raise NotFoundError(
            f"run {run} has no result of {name!r}.{hint} It has {named}",
            run=run,
            name=name,
        )
    raise NotFoundError(f"more than one result fits {name!r}: {named}. Name one whole", name=name)


def case_glob(name: str) -> str:
    """Return `name` as a glob of case keys; without wildcards it matches any part of a key."""
    return name if any(sign in name for sign in "*?[") else f"*{name}*"
