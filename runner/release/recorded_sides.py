"""The case of a stored run as it was measured: its code, its configuration and its settings.

A run records the configuration of each case and the settings of its variant. It keeps the text of
the model's files where `[models.NAME] keep_source` asks for it. Other runs need unchanged files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.kernels import load_sources
from compile_hud.db.queries.results import load_document
from compile_hud.db.records.results import CaseResult, Run, RunRef
from compile_hud.db.shared.model_code import MODEL_COMMITS, revision_of
from compile_hud.db.shared.model_sources import kept_files, source_hash
from compile_hud.models_zoo.catalog.spec import CompileSettings, ModelSpec
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.model_commits import model_commits
from compile_hud.runner.files.model_files import model_files
from compile_hud.runner.files.model_sources import source_of
from compile_hud.runner.protocol.messages import Checkout, Workload
from compile_hud.runner.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSide:
    """The order of a case as a run measured it; None with a note that says why."""

    order: CaseOrder | None
    note: str = ""


def recorded_side(
    bound: RunRef | None, *, order: CaseOrder, folder: Path, workspace: Workspace
) -> RecordedSide:
    """Return `order` as the run of `bound` had it; stored files are written to `folder`."""
    if bound is None:
        return RecordedSide(order=None, note="the alert has no last good run")
    store = workspace.store()
    try:
        document = load_document(store, bound.run_id, has_kernels=False, case_key=order.case.key)
    except NotFoundError:
        return RecordedSide(order=None, note=f"run {bound.run_id} was pruned")
    # The document has every variant of the case.
    result = next((item for item in document.results if item.case == order.case), None)
    if result is None:
        return RecordedSide(order=None, note=f"run {bound.run_id} has no result of the case")
    workload = _recorded_workload(order.workload, result)
    known = workspace.config.catalog.get(order.case.model)
    if known is None or not _has_other_code(document.run, known):
        return RecordedSide(order=replace(order, run_id=bound.run_id, workload=workload))
    digest = source_hash(document.run, known.name)
    source = load_sources(store, [digest]).get(digest) if digest else None
    files = None if source is None else kept_files(source)
    if not files:
        note = (
            f"the code of {known.name} has changed since run {bound.run_id}, which kept none:"
            f" `[models.{known.name}] keep_source = true` keeps it"
        )
        return RecordedSide(order=None, note=note)
    moved = _unpacked(files, workload=workload, folder=folder)
    if moved is None:
        note = f"files of run {bound.run_id} are outside of the folder of {known.name}"
        return RecordedSide(order=None, note=note)
    return RecordedSide(order=replace(order, run_id=bound.run_id, workload=moved))


def _recorded_workload(workload: Workload, result: CaseResult) -> Workload:
    recorded = result.details.get("workload")
    if not isinstance(recorded, Mapping):
        return workload
    config = {
        name: tuple(value) if isinstance(workload.config.get(name), tuple) else value
        for name, value in recorded.get("config", workload.config).items()
    }
    settings = CompileSettings.from_flat(recorded.get("variant", {}))
    return replace(workload, config=config, compile=settings)


def _has_other_code(run: Run, spec: ModelSpec) -> bool:
    """Return whether the files of the model differ from those that `run` measured."""
    if digest := source_hash(run, spec.name):
        files = model_files(spec.build, folder=Path.cwd())
        return not files or source_of(files).hash != digest
    recorded = run.environment.get(MODEL_COMMITS)
    if not isinstance(recorded, Mapping):
        # Nothing says that it is another one.
        return False
    return revision_of(recorded, spec.name) != revision_of(model_commits([spec]), spec.name)


def _unpacked(files: Mapping[str, str], *, workload: Workload, folder: Path) -> Workload | None:
    """Write `files` to `folder`, which takes the part of the working directory; None if unsafe."""
    repository = Path(os.path.realpath(Path.cwd()))
    entry, colon, attribute = workload.build.partition(":")
    entries = model_files(workload.build, folder=repository)
    if not entries:
        return None
    home = entries[0].parent
    if not home.is_relative_to(repository):
        repository = home
    folder = Path(os.path.realpath(folder))
    for name, text in files.items():
        path = Path(os.path.normpath(folder / home.relative_to(repository) / PurePosixPath(name)))
        if not path.is_relative_to(folder):
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if entry.endswith(".py"):
        entry = str(folder / entries[0].relative_to(repository))
    return replace(
        workload,
        build=f"{entry}{colon}{attribute}",
        checkout=Checkout(folder=str(folder), repository=str(repository)),
    )
