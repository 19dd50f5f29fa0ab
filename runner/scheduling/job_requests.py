"""Requests for runs, on their way to the store's queue.

A schedule fires once, even while the store is locked. A request is therefore a file first, like a
result, until the store has it. Its key prevents a second run of the same night.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from compile_hud.db.errors import RecordError, StoreError
from compile_hud.db.records.codec import decode, encode
from compile_hud.db.store import Store
from compile_hud.runner.files.json_files import read_json
from compile_hud.runner.protocol.files import write_json

logger = logging.getLogger(__name__)

# 1: first version.
REQUEST_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A request for a run on the machine of the state directory."""

    dedupe_key: str
    suite: str
    toolchain: str
    trigger: str

    def to_json(self) -> dict[str, Any]:
        """Return the request as a JSON object."""
        return {"schema_version": REQUEST_VERSION, **encode(self)}

    @classmethod
    def from_json(cls, document: Any) -> JobRequest:
        """Return the request that `document` describes; raise RecordError when it does not."""
        if not isinstance(document, Mapping) or document.get("schema_version") != REQUEST_VERSION:
            raise RecordError(f"no job request of version {REQUEST_VERSION}")
        return decode(cls, document)


def night_key(name: str, *, at: datetime, timezone: str) -> str:
    """Return the key of schedule `name` firing at `at`: its local date and time.

    When clocks go back, a cron time comes twice in one night; both have the same key.
    """
    local = at.astimezone(ZoneInfo(timezone))
    return f"{name} {local:%Y-%m-%dT%H:%M}"


class JobRequests:
    """A directory of requests that the store does not have yet."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # The thread of the scheduler adds requests, the job worker removes them.
        self._lock = threading.RLock()
        self._unwritten: list[JobRequest] = []

    def write(self, request: JobRequest) -> None:
        """Write `request` to the disk until the store has it; raise OSError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(request.dedupe_key.encode()).hexdigest()[:32]
        write_json(self.directory / f"{name}.json", request.to_json())

    def save(self, request: JobRequest) -> None:
        """Save `request` on the disk, or in memory while the disk is full. Raises nothing."""
        with self._lock:
            if request not in self._unwritten:
                self._unwritten.append(request)
            self.write_unwritten()

    def write_unwritten(self) -> int:
        """Write the requests in memory to the disk; return how many remain."""
        with self._lock:
            for request in tuple(self._unwritten):
                try:
                    self.write(request)
                except OSError as error:
                    logger.warning("job %s is kept in memory: %s", request.dedupe_key, error)
                    break
                self._unwritten.remove(request)
            return len(self._unwritten)

    def flush(self, store: Store, *, machine: str) -> str:
        """Queue every request in `store` for `machine`, the machine of this directory.

        Returns the reason if that was not possible, else empty.
        """
        try:
            self._flush_unwritten(store, machine=machine)
        except StoreError as error:
            return str(error)
        for path in sorted(self.directory.glob("[!.]*.json")):
            try:
                request = JobRequest.from_json(read_json(path))
                _enqueue(request, store, machine=machine)
            except FileNotFoundError:
                continue  # another process has queued it
            except RecordError as error:
                path.replace(path.with_suffix(".broken"))
                logger.warning("set aside job request %s: %s", path, error)
                continue
            except StoreError as error:
                return str(error)
            path.unlink(missing_ok=True)
        return ""

    def _flush_unwritten(self, store: Store, *, machine: str) -> None:
        with self._lock:
            self.write_unwritten()
            # The store may be on another disk, or on another machine.
            for request in tuple(self._unwritten):
                _enqueue(request, store, machine=machine)
                self._unwritten.remove(request)


def _enqueue(request: JobRequest, store: Store, *, machine: str) -> None:
    store.enqueue_job(
        dedupe_key=request.dedupe_key,
        suite=request.suite,
        toolchain=request.toolchain,
        trigger=request.trigger,
        machine=machine,
    )
