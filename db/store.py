"""The store: runs, results, alerts and jobs are written here."""

from __future__ import annotations

import copy
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final, Protocol, TypeVar

from sqlalchemy import select, update
from sqlalchemy.engine import Connection

from compile_hud.db.alerts.revisions import put_revisions, put_settings, replay
from compile_hud.db.engine.database import DuckDbMemory, open_database
from compile_hud.db.engine.error_mapping import store_waiting
from compile_hud.db.engine.readers_writer_lock import LockTimeout
from compile_hud.db.errors import NotFoundError
from compile_hud.db.ingest import results as ingest
from compile_hud.db.jobs import queue as jobs
from compile_hud.db.jobs.live_log import LiveLog
from compile_hud.db.jobs.queue import Job, JobState
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.notifications import Notification
from compile_hud.db.records.results import CaseResult, Run, RunState
from compile_hud.db.records.triage import AlertChange, Revision, SeriesSettings, Signature
from compile_hud.db.rows.alerts import read_alerts
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.schema import migrate
from compile_hud.db.schema.tables import METADATA, RunTable
from compile_hud.db.schema.version import revision_of


class Decision(Protocol):
    """A decision about alerts."""

    @property
    def revisions(self) -> Sequence[Revision]:
        """Return the alerts that are new or changed."""


Decided = TypeVar("Decided", bound=Decision)
Tell = Callable[[Sequence[Alert], Decided], Sequence[Notification]]

LOCK_TIMEOUT_S: Final = 30.0
# Longer than two transactions of ours take, one behind the other.
_SHORT_TIMEOUT_S: Final = 3.0


def no_notifications(before: Sequence[Alert], decided: Decision) -> tuple[Notification, ...]:
    """Return no notification, whatever the decision."""
    del before, decided
    return ()


def utc_now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(timezone.utc)


class Store:
    """A store by its URL; every method is one short transaction, from any thread or process.

    Nothing is opened before the first use, and nothing stays open after it without `keeps_open`. A
    store that does not exist yet reads as empty, and the first write creates it. All methods raise
    StoreLocked, StoreFull, StoreTooNew and StoreUnavailable.
    """

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], datetime] = utc_now,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        keeps_open: bool = False,
        on_wait: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Prepare access to the store; raise StoreUnavailable if `url` is no store URL.

        With `keeps_open` the file stays open between reads, until a writer waits. `on_wait` is
        called with a message about a long wait: the process that has the file, and the timeout.
        """
        self.url = url
        self._now = now
        self._lock_timeout = LockTimeout(
            timeout_s=lock_timeout_s,
            sleep=sleep,
            monotonic=monotonic,
            on_wait=lambda holder, left_s: on_wait(
                store_waiting(self.name, holder=holder, until=now() + timedelta(seconds=left_s))
            ),
        )
        self._database = open_database(url, lock_timeout=self._lock_timeout, keeps_open=keeps_open)
        self._is_migrated = False
        # The connection of this thread's `reading` block.
        self._open = threading.local()
        self._impatient: Store | None = None

    def with_short_timeout(self) -> Store:
        """Return the store for callers that retry anyway: it waits three seconds for each lock.

        These waits do not call `on_wait`.
        """
        if self._impatient is None:
            self._impatient = self._make_impatient()
        return self._impatient

    def _make_impatient(self) -> Store:
        impatient = copy.copy(self)
        impatient._lock_timeout = replace(
            self._lock_timeout,
            timeout_s=min(_SHORT_TIMEOUT_S, self._lock_timeout.timeout_s),
            on_wait=lambda _holder, _left_s: None,
        )
        if not isinstance(self._database, DuckDbMemory):
            impatient._database = open_database(self.url, lock_timeout=impatient._lock_timeout)
        impatient._open = threading.local()
        return impatient

    @property
    def name(self) -> str:
        """Return the file or the URL without its password, for messages."""
        return self._database.name

    def store_version(self) -> int:
        """Return a number that writes raise; on DuckDB no database is opened."""
        return self._database.store_version()

    def is_missing(self) -> bool:
        """Return whether the store has no file yet; it reads as empty."""
        return self._database.is_missing()

    def is_read_only(self) -> bool:
        """Return whether the file of the store can be read here and not written."""
        return self._database.is_read_only()

    def check_is_store(self) -> None:
        """Raise StoreUnavailable if the file exists and is of another program."""
        self._database.check_is_store()

    def check_takes_measured(self) -> None:
        """Raise MixedStoreError if the store has synthetic runs."""
        self._check_not_mixed("what is measured", is_synthetic=False)

    def check_takes_synthetic(self) -> None:
        """Raise MixedStoreError if the store has real runs."""
        self._check_not_mixed("the history of a demo", is_synthetic=True)

    def _check_not_mixed(self, what: str, *, is_synthetic: bool) -> None:
        if self.is_missing():
            return
        with self.read() as connection:
            ingest.check_not_mixed(
                connection, what, is_synthetic=is_synthetic, store=f"the store {self.name}"
            )

    def migrate(self) -> None:
        """Create the store or bring its schema up to date; raise StoreTooNew if it is newer."""
        with self._database.write() as connection:
            migrate.upgrade(connection, name=self.name)
        self._is_migrated = True

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection for one read transaction; no other may be open in it."""
        shared: Connection | None = getattr(self._open, "connection", None)
        if shared is not None:
            yield shared
            return
        if self._database.is_missing():
            with _empty() as connection:
                yield connection
            return
        with self._database.read() as connection:
            # The check is repeated for each read: newer code may have upgraded the store meanwhile.
            if migrate.is_readable(connection, name=self.name):
                yield connection
            else:
                with _empty() as nothing:
                    yield nothing

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let all reads of this thread in the block see one moment, with the store opened once.

        Opening it takes longer than most queries. The block must not write, nor wait for another
        thread that reads: a writer may be waiting between the two.
        """
        with self.read() as connection:
            self._open.connection = connection
            try:
                yield
            finally:
                self._open.connection = None

    @contextmanager
    def snapshot(self, folder: Path) -> Iterator[Connection]:
        """Yield a connection that sees the store of one moment, for any length of time.

        No writer waits for it; on DuckDB writers wait while the file is copied into `folder`.
        """
        with self.read() as connection:
            # This raises an error of the store before anything is copied.
            is_empty = revision_of(connection) is None
        if self._database.is_missing() or is_empty:
            with _empty() as nothing:
                yield nothing
            return
        with self._database.snapshot(folder) as connection:
            yield connection

    @contextmanager
    def rebuild(self, *, on_replaced: Callable[[Path], None]) -> Iterator[Connection]:
        """Yield a connection without tables; the tables that the block makes replace all old ones.

        `on_replaced` is called with each old file, under its new name, when the block ends.
        """
        with self._database.rebuild(on_replaced=on_replaced) as connection:
            yield connection
            migrate.upgrade(connection, name=self.name)
        self._is_migrated = True

    @contextmanager
    def write(self, *, raises_version: bool = True) -> Iterator[Connection]:
        """Yield a connection that commits all or nothing when the block ends.

        A write that changes no page leaves the store version (`raises_version`).
        """
        if not self._is_migrated or self._database.is_missing():
            self.migrate()
        with self._database.write(raises_version=raises_version) as connection:
            # Newer code may have upgraded the store since this process looked last.
            migrate.check_is_current(connection, name=self.name)
            yield connection

    def save_run(self, run: Run) -> None:
        """Insert `run`, or move its state; environment and a finished state stay.

        Raises MixedStoreError if the store has runs of the other kind, real or synthetic.
        """
        with self.write() as connection:
            self._put_run(connection, run)

    def heartbeat(self, run_id: str, *, log: LiveLog | None = None) -> None:
        """Record that the run is alive, and the last output of its case.

        Raises NotFoundError for an unknown run.
        """
        with self.write() as connection:
            beat = update(RunTable).where(RunTable.c.id == run_id).values(heartbeat_at=self._now())
            if not connection.execute(beat.returning(RunTable.c.id)).scalar():
                raise NotFoundError(
                    f"no run {run_id!r} in {self.name}", run=run_id, store=self.name
                )
            jobs.put_live_log(connection, run_id, log=log, at=self._now())

    def interrupt_stale_runs(self, *, older_than_s: float) -> list[str]:
        """Mark running runs without a heartbeat for `older_than_s` interrupted; return the ids."""
        last = self._now() - timedelta(seconds=older_than_s)
        is_stale = (RunTable.c.state == RunState.RUNNING) & (RunTable.c.heartbeat_at < last)
        with self.read() as connection:
            if not connection.execute(select(RunTable.c.id).where(is_stale)).first():
                return []
        with self.write() as connection:
            ids = connection.execute(select(RunTable.c.id).where(is_stale).order_by(RunTable.c.id))
            stale = list(ids.scalars())
            connection.execute(
                update(RunTable).where(RunTable.c.id.in_(stale)).values(state=RunState.INTERRUPTED)
            )
        return stale

    def ingest(self, run: Run, result: CaseResult, *, spool_id: str) -> bool:
        """Store `result`, and `run` if it is missing; return False if the result is stored already.

        Exactly once: after any crash, and with other processes that do the same, there is one copy.
        A case that a resumed run measures again adds a result; queries take the last one.
        """
        with self.write() as connection:
            return ingest.put_result(
                connection, run, result=result, spool_id=spool_id, at=self._now()
            )

    def ingest_all(self, run: Run, results: Iterable[tuple[str, CaseResult]]) -> int:
        """Store `results`, each behind its spool id, and `run`; return the number of new ones.

        One transaction, all or nothing; otherwise as `ingest` and `save_run`.
        """
        # This runs before the file is opened, since other processes wait for it meanwhile.
        batch = tuple(results)
        with self.write() as connection:
            self._put_run(connection, run)
            return ingest.put_results(connection, run, results=batch, at=self._now())

    def _put_run(self, connection: Connection, run: Run) -> None:
        ingest.put_run(connection, run, at=self._now())
        if run.state is not RunState.RUNNING:
            jobs.put_live_log(connection, run.id, log=None, at=self._now())

    def revise_alerts(
        self,
        decide: Callable[[tuple[Alert, ...]], Decided],
        *,
        by: str,
        tell: Tell[Decided] = no_notifications,
    ) -> Decided:
        """Save the revisions that `decide` makes of all alerts, and record every change.

        One transaction reads and saves, so no other process changes an alert in between. If there
        is something to save, `decide` is called twice, and its last decision is returned. The
        notifications that `tell` makes of the old alerts and the decision are saved in the same
        transaction.
        """
        # A read comes first: most runs of the detector change nothing, and a write makes every page
        # load again.
        with self.read() as connection:
            decided = decide(read_alerts(connection))
        if decided.revisions:
            with self.write() as connection:
                before = read_alerts(connection)
                decided = decide(before)
                put_revisions(connection, decided.revisions, by=by, at=self._now())
                put_notifications(connection, tell(before, decided))
        return decided

    def revise_settings(
        self,
        pattern: str,
        revise: Callable[[SeriesSettings], SeriesSettings],
        *,
        by: str,
        why: str = "",
    ) -> tuple[AlertChange, ...]:
        """Save what `revise` makes of the settings of `pattern`; return and record every change."""
        with self.write() as connection:
            signature = Signature(by=by, at=self._now(), why=why)
            return put_settings(connection, pattern, revise=revise, signature=signature)

    def replay_changes(self, changes: Sequence[AlertChange]) -> int:
        """Apply changes that people made in another store of the same results; return the new ones'
        number.

        Changes of alerts that are not in this store are left out.
        """
        with self.write() as connection:
            return replay(connection, changes)

    def enqueue_job(
        self,
        *,
        dedupe_key: str,
        suite: str,
        toolchain: str,
        trigger: str,
        machine: str | None = None,
    ) -> bool:
        """Queue a run on `machine`, or on any; return False if this key was ever queued."""
        job = jobs.NewJob(
            dedupe_key=dedupe_key,
            suite=suite,
            toolchain=toolchain,
            trigger=trigger,
            machine=machine,
        )
        with self.write() as connection:
            return jobs.put_job(connection, job, at=self._now())

    def lease_job(self, *, machine: str | None = None, lease_s: float = 3600.0) -> Job | None:
        """Take the oldest free job, None without one; also one whose process died.

        The caller ends an exhausted job. The scheduler of `machine` takes jobs for it or for any
        machine, None takes all. A process on another host counts as alive until `lease_s` after its
        last `renew_job`.
        """
        # Schedulers ask every few seconds, and only a due job is worth a write.
        with self.read() as connection:
            if not jobs.has_due_job(connection, machine=machine, at=self._now()):
                return None
        with self.write() as connection:
            return jobs.take_job(connection, machine=machine, at=self._now(), lease_s=lease_s)

    def renew_job(self, job_id: str) -> None:
        """Extend the lease of a job in progress; raise NotFoundError without such a job."""
        with self.write() as connection:
            jobs.renew(connection, job_id, at=self._now())

    def finish_job(
        self, job_id: str, *, run_id: str | None, state: JobState | str, reason: str = ""
    ) -> None:
        """Set a job `done` or `failed`; raise NotFoundError without such a job."""
        with self.write() as connection:
            jobs.end_job(connection, job_id, run_id=run_id, state=JobState(state), reason=reason)

    def put_job_back(
        self, job_id: str, *, due_at: datetime, reason: str, counts: bool = True
    ) -> None:
        """Queue a leased job again for `due_at`; raise NotFoundError without such a job.

        Unless the attempt `counts`, the job has as many attempts left as before it.
        """
        with self.write() as connection:
            jobs.put_back(connection, job_id, due_at=due_at, reason=reason, counts=counts)

    def has_due_run(self, *, machine: str | None) -> bool:
        """Return whether a run on `machine` is queued and due."""
        with self.read() as connection:
            return jobs.has_due_run(connection, machine=machine, at=self._now())


# Databases with tables and no rows. Creating one takes 30 ms, and a command reads dozens of times.
_EMPTY_DATABASES: deque[DuckDbMemory] = deque()
# Threads of DuckDB do not outlive a fork.
os.register_at_fork(after_in_child=_EMPTY_DATABASES.clear)


@contextmanager
def _empty() -> Iterator[Connection]:
    try:
        database = _EMPTY_DATABASES.pop()
    except IndexError:
        database = DuckDbMemory()
        with database.write() as connection:
            METADATA.create_all(connection, checkfirst=False)
    try:
        with database.read() as connection:
            yield connection
    finally:
        _EMPTY_DATABASES.append(database)
