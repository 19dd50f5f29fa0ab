"""The errors of the runner.

RunnerError
|-- ConfigError       hud.toml or an environment variable is wrong
|-- SpoolFull         a result could not be written down: no room, no permission
|-- ExecutorError     the worker host is gone for good
|   |-- ToolchainUnusable   it could not even be started, or not with this device
|   |-- DeviceLost          the device was there when the run began, and is no more
|   `-- DiskFull            workers have no room for what they find
|-- BisectError       there is nothing to search, or nothing to search with
|   `-- RevisionUnusable    one revision cannot be built or started; the search goes on
|-- ToolchainError    a toolchain cannot be built or removed
|-- ResumeError       an interrupted run cannot be continued here
|-- LockUnavailable   a lock file cannot be made, or is not safe to use
|-- SchedulerHeld     another process schedules from the same state directory
|-- SchedulerUnavailable   what APScheduler remembers cannot be read or written
|-- WatchFailed       what a schedule watches cannot be looked at now
|-- NoSuchDocument    what `hud compare` was asked to compare is nowhere
|-- DocumentNotWritten   a file that was asked for cannot be written
|-- CommentFailed     a pull request cannot be commented on
|-- JudgingLost       a process that judged was ended; nothing was saved
|-- ImportFailed      a file of another tool cannot be read; the message has file and line
|-- TraceError        a profiler's trace cannot be read; the message has file and byte
|-- ProfilerFailed    a profiler that somebody else makes did not do what it was asked
|-- DashboardUnavailable the dashboard is not installed or its port is taken
`-- RunInterrupted    somebody pressed Ctrl-C or the process was told to end
"""

from __future__ import annotations


class RunnerError(Exception):
    """Base of every error that planning and executing runs raises."""


class ConfigError(RunnerError, ValueError):
    """A setting is unknown, ill-typed or out of range; the message has file, line and key."""


class SpoolFull(RunnerError):
    """The spool takes no more results."""


class ExecutorError(RunnerError):
    """No case can be executed any more."""


class ToolchainUnusable(ExecutorError):
    """The toolchain cannot measure here; nothing was measured."""


class DeviceLost(ExecutorError):
    """The device is gone for every process; what was measured before is kept."""


class DiskFull(ExecutorError):
    """A case needs room on the disk that there is not; what was measured before it is kept."""


class BisectError(RunnerError):
    """A bisection cannot begin or go on; what it has found is kept."""


class RevisionUnusable(BisectError):
    """A revision cannot be built, checked out or started."""


class ToolchainError(RunnerError):
    """A toolchain cannot be built or removed; what there was is as it was."""


class ResumeError(RunnerError):
    """The run is not interrupted, or was made in another environment."""


class LockUnavailable(RunnerError):
    """Without the lock nobody knows who else measures; the message says what to do."""


class SchedulerHeld(RunnerError):
    """Two schedulers on one job store would enqueue every night twice."""


class SchedulerUnavailable(RunnerError):
    """Nothing can be scheduled: the file of the schedules is damaged, or its disk full."""


class WatchFailed(RunnerError):
    """A repository or an index does not answer; it is asked again later."""


class NoSuchDocument(RunnerError, LookupError):
    """No run, revision or result file answers to the name."""


class DocumentNotWritten(RunnerError):
    """A file that was asked for has no place to go."""


class CommentFailed(RunnerError):
    """A pull request takes no comment: it is not known, or its server refuses."""


class JudgingLost(RunnerError):
    """A process that judged was ended from outside; what is stored is as it was."""


class ImportFailed(RunnerError, ValueError):
    """A file of another tool is damaged, or not in the format it was taken for."""


class TraceError(RunnerError, ValueError):
    """A trace is damaged, too large, or not what its notes say."""


class ProfilerFailed(RunnerError):
    """A program of Nsight ended with an error."""


class DashboardUnavailable(RunnerError):
    """Nothing can be served."""


class RunInterrupted(RunnerError):
    """The run was stopped from outside; what was measured is kept."""
