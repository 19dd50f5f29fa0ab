"""The folder of stored traces: one file for each case result with a trace, named by its id.

The executor writes the trace of a result next to the spool. When the store has the result, the
trace moves here. A trace is evidence only: an error costs the trace and never the result.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from compile_hud.db.records.results import CaseResult
from compile_hud.db.shared.trace_paths import SUFFIX, find_trace, trace_name
from compile_hud.runner.protocol.files import whole_file

logger = logging.getLogger(__name__)


def traces_in(folder: Path) -> dict[str, Path]:
    """Return the traces in `folder` by the ids of their results; other files are ignored."""
    ids = {path: path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")}
    return {name: path for path, name in ids.items() if trace_name(name) == path.name}


class TraceFolder:
    """The folder of stored traces; None stores no traces."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._has_warned = False

    def find(self, result_id: str) -> Path | None:
        """Return the stored trace of a result, None without one."""
        return find_trace(self.folder, result_id)

    def take(self, result: CaseResult, *, waiting: Path) -> CaseResult:
        """Move the trace of `result` out of the folder `waiting`; return the result with its name.

        The name, `trace` of the result's profile, is empty without a trace and after an error. A
        second call changes nothing.
        """
        profile = result.details.get("profile")
        if not isinstance(profile, Mapping) or not profile.get("trace"):
            return result
        name = trace_name(result.id)
        stored_name = name if name and self._keep(name, waiting=waiting) else ""
        if profile["trace"] == stored_name:
            return result
        return replace(
            result, details={**result.details, "profile": {**profile, "trace": stored_name}}
        )

    def _keep(self, name: str, *, waiting: Path) -> bool:
        source = waiting / name
        if self.folder is None:
            if source.is_file():
                self._warn_once()
                source.unlink(missing_ok=True)
            return False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if source.is_file():
                move_file(source, self.folder / name)
            return (self.folder / name).is_file()
        except OSError as error:
            logger.warning("the trace %s is lost: %s (%s)", name, error.strerror, self.folder)
            source.unlink(missing_ok=True)
            return False

    def _warn_once(self) -> None:
        if not self._has_warned:
            logger.warning(
                "traces are not kept: the store is no file that they could lie beside."
                " Name a folder that every dashboard can read with [traces] folder"
            )
        self._has_warned = True


def move_file(source: Path, target: Path) -> None:
    """Move `source` to `target`, whole or not at all; raise OSError (a full disk among them)."""
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # The target is on another file system, such as a shared one.
        copy_file(source, target)
        source.unlink()


def copy_file(source: Path, target: Path) -> None:
    """Copy `source` to `target`, whole or not at all; raise OSError (a full disk among them)."""
    with source.open("rb") as content, whole_file(target) as stream:
        shutil.copyfileobj(content, stream)
