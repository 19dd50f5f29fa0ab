"""The spool: a directory with a file for each case result that the store does not have yet.

The file is written before any other use of the result. It is complete or absent, and is removed
only after the store has committed it. An unreadable file is moved to `broken/` and does not block
the others.
"""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, Protocol

from compile_hud.db.errors import MixedStoreError, RecordError, StoreError
from compile_hud.db.records.codec import decode, encode
from compile_hud.db.records.json_fields import SCHEMA_VERSION, check_schema_version
from compile_hud.db.records.results import CaseResult, Run
from compile_hud.db.shared.text import is_storable
from compile_hud.runner.errors import SpoolFull
from compile_hud.runner.files.json_files import read_json
from compile_hud.runner.persistence.run_processes import RunProcesses
from compile_hud.runner.persistence.trace_store import TraceFolder, traces_in
from compile_hud.runner.protocol.files import write_json
from compile_hud.runner.system.locks import is_alive

# No pause between the last look at a case and the writing of its result is longer.
ORPHAN_AGE_S = 3600.0


# Errors that only the content of a file causes. No file of another program may block the others.
_OF_CONTENT: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


class ResultStore(Protocol):
    """The spool's interface to a store."""

    def save_run(self, run: Run) -> None:
        """Store `run`, replacing an earlier version of it."""
        ...

    def ingest(self, run: Run, result: CaseResult, *, spool_id: str) -> bool:
        """Store `result` with all its rows; return False when `spool_id` is in already."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolEntry:
    """One file of the spool; without a result it carries news of the run itself."""

    spool_id: str
    run: Run
    result: CaseResult | None

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a JSON object."""
        return {"schema_version": SCHEMA_VERSION, **encode(self)}

    @classmethod
    def from_json(cls, document: Any) -> SpoolEntry:
        """Return the entry that `document` describes; raise RecordError when it does not."""
        check_schema_version(document)
        spool_id = document.get("spool_id")
        if not isinstance(spool_id, str) or not spool_id or not is_storable(spool_id):
            raise RecordError("field 'spool_id' is missing: this is no file of the spool")
        return decode(cls, document)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenFile:
    """A broken file that was moved away, with the reason."""

    path: Path
    reason: str

    @property
    def text(self) -> str:
        """Return a message for the user."""
        return f"set aside {self.path}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """The number of stored results and of remaining files after draining.

    `error` is the reason why the store accepted no more, empty if it accepted all.
    """

    num_ingested: int = 0
    num_duplicates: int = 0
    broken: tuple[BrokenFile, ...] = ()
    num_left: int = 0
    error: str = ""


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


class Spool:
    """The files of one directory, in the order in which they were written."""

    def __init__(
        self,
        directory: Path,
        *,
        now: Callable[[], datetime] = utc_now,
        traces: TraceFolder | None = None,
    ) -> None:
        self.directory = directory
        self.traces = traces or TraceFolder(None)
        self.broken_directory = directory / "broken"
        self.processes = RunProcesses(directory / "processes")
        self._now = now
        self._sequence = itertools.count()

    def write(self, run: Run, *, result: CaseResult | None = None) -> Path:
        """Return the new file with `result`, synchronised to the disk.

        Raises SpoolFull if it cannot be written; then no part of it remains.
        """
        # The random part prevents collisions: many machines may share one store.
        microseconds = int(self._now().timestamp() * 1_000_000)
        stem = f"{microseconds:018d}-{next(self._sequence):05d}-{uuid.uuid4().hex}"
        entry = SpoolEntry(spool_id=stem, run=run, result=result)
        path = self.directory / f"{stem}.json"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            write_json(path, entry.to_json())
        except OSError as error:
            what = f"run {run.id}" if result is None else f"case {result.case.key}"
            raise SpoolFull(
                f"cannot keep the result of {what}: {error.strerror} ({self.directory})."
                " Everything measured before it is kept. Make room, then"
                f" `hud run --resume {run.id}` continues",
                reason=error.strerror,
                directory=self.directory,
                run=run.id,
            ) from error
        return path

    def pending(self) -> tuple[Path, ...]:
        """Return the pending files, oldest first."""
        return tuple(sorted(self.directory.glob("[!.]*.json")))

    def has_any_of(self, run_ids: Collection[str]) -> bool:
        """Return whether a file of these runs is pending or broken."""
        paths = (*self.pending(), *self.broken_directory.glob("*.json"))
        return any(_run_id_in(path) in run_ids for path in paths)

    def remove_unclaimed_traces(self) -> None:
        """Remove the traces without a result, unless results are pending.

        They are of interrupted cases, or of cases measured without a store. A young one may belong
        to a result that is about to be written.
        """
        if self.pending():
            return
        last = self._now().timestamp() - ORPHAN_AGE_S
        for path in traces_in(self.directory).values():
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < last:
                    path.unlink()

    def drain(self, store: ResultStore) -> DrainReport:
        """Store every pending file exactly once and return a report.

        Stops at the first file that the store refuses: the order of a run's updates matters.
        """
        self._remove_leftovers()
        counts = {True: 0, False: 0}
        broken: list[BrokenFile] = []
        error_text = ""
        for path in self.pending():
            try:
                entry = _read_entry(path)
                is_new = self._ingest(entry, store)
            except FileNotFoundError:
                continue  # another process was faster; it has ingested this file
            except (RecordError, MixedStoreError, *_OF_CONTENT) as error:
                broken.append(self._set_aside(path, reason=_reason(error)))
                continue
            except StoreError as error:
                error_text = str(error)
                break
            # Updates of a run are no results.
            counts[is_new] += entry.result is not None
            path.unlink(missing_ok=True)
        return DrainReport(
            num_ingested=counts[True],
            num_duplicates=counts[False],
            broken=tuple(broken),
            num_left=len(self.pending()),
            error=error_text,
        )

    def _ingest(self, entry: SpoolEntry, store: ResultStore) -> bool:
        if entry.result is None:
            store.save_run(entry.run)
            return True
        # The trace moves before the result is stored, since a page may open it from then on.
        result = self.traces.take(entry.result, waiting=self.directory)
        return store.ingest(entry.run, result, spool_id=entry.spool_id)

    def _set_aside(self, path: Path, *, reason: str) -> BrokenFile:
        self.broken_directory.mkdir(exist_ok=True)
        target = self.broken_directory / path.name
        # Another process may have moved it a moment ago.
        with contextlib.suppress(FileNotFoundError):
            path.replace(target)
        return BrokenFile(path=target, reason=reason)

    def _remove_leftovers(self) -> None:
        # A killed writer leaves its temporary file; the name ends in its PID.
        for path in self.directory.glob(".*.tmp"):
            pid = path.name.split(".")[-2]
            if pid.isdigit() and not is_alive(int(pid)):
                path.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    if isinstance(error, StoreError):
        return str(error)
    return f"it has a value that no result has ({type(error).__name__}: {error})"


def _run_id_in(path: Path) -> str | None:
    """Return the run of a file of the spool, None where it cannot be read."""
    try:
        return _read_entry(path).run.id
    except (FileNotFoundError, RecordError, *_OF_CONTENT):
        return None


def _read_entry(path: Path) -> SpoolEntry:
    try:
        return SpoolEntry.from_json(read_json(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RecordError(
            f"{path.name} cannot be read: {error.strerror}", path=path.name, reason=error.strerror
        ) from error
