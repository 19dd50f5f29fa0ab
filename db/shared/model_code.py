"""The revisions of models' code in runs, and the sentence on their change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.results import Run
from compile_hud.db.shared.text import counted

# The fact of a run with the revision of each model's code.
MODEL_COMMITS = "model_commits"
# The common name of the catalog's models, which share a repository.
ZOO = "models_zoo"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCodeChange:
    """A model with other code in the candidate."""

    model: str
    baseline: str
    candidate: str

    @property
    def text(self) -> str:
        """Return the change as the first part of a cause."""
        return code_change_text(self.baseline, self.candidate)

    def to_json(self) -> dict[str, str]:
        """Return the change as a JSON object."""
        return {"model": self.model, "baseline": self.baseline, "candidate": self.candidate}


def code_change_text(baseline: str | None, candidate: str | None) -> str:
    """Return `model code changed: OLD -> NEW`; None is a side without a revision."""
    return f"model code changed: {baseline or 'none'} -> {candidate or 'none'}"


def own_revisions(run: Run) -> dict[str, str]:
    """Return the revision of the code of each own model, by model; none for the catalog's."""
    return {name: text for name, text in _revisions(run).items() if name != ZOO}


def revisions_text(run: Run) -> str:
    """Return the revisions of the own models: `abc1234` for one, `a abc1234, b def5678` for more.

    It is empty for a run of the catalog's models only.
    """
    revisions = own_revisions(run)
    if len(revisions) == 1:
        return next(iter(revisions.values()))
    if len(set(revisions.values())) == 1:
        return f"{next(iter(revisions.values()))} ({counted(len(revisions), 'model')})"
    return ", ".join(f"{name} {text}" for name, text in revisions.items())


def revision_of(commits: Mapping[str, Any], model: str) -> str:
    """Return the revision of the code of `model` by the fact of a run; empty if unknown."""
    return str(commits.get(model) or commits.get(ZOO) or "")


def code_changes(
    baseline: Run, *, candidate: Run, models: Iterable[str]
) -> tuple[ModelCodeChange, ...]:
    """Return those of `models` whose own code differs between the two runs, by name.

    A run without the fact, or without the model, has no revision to compare with.
    """
    before, after = own_revisions(baseline), own_revisions(candidate)
    return tuple(
        ModelCodeChange(model=name, baseline=before[name], candidate=after[name])
        for name in sorted({*models})
        if name in before and name in after and before[name] != after[name]
    )


def _revisions(run: Run) -> dict[str, str]:
    commits = run.environment.get(MODEL_COMMITS)
    if not isinstance(commits, Mapping):
        return {}
    return {str(name): str(text) for name, text in commits.items() if text}
