"""The errors of the runner.

RunnerError
|-- ConfigError             hud.toml or an environment variable is wrong
|-- SpoolFull               a result could not be written down: no room, no permission
|-- ExecutorError           the worker host has ended for good
|   |-- ToolchainUnusable   it could not be started, or not with this device
|   |-- DeviceUnavailable   the device has disappeared since the run began
|   `-- DiskFull            workers have no room for their results
|-- BisectError             there is nothing to search, or nothing to search with
|   |-- RevisionUnusable    one revision cannot be built or started; the search goes on
|   `-- SearchImpossible    an alert has no revisions that a search could measure
|-- ToolchainError          a toolchain cannot be built or removed
|-- ResumeError             an interrupted run cannot be continued here
|-- LockUnavailable         a lock file cannot be made, or is not safe to use
|-- SchedulerBusy           another process schedules from the same state directory
|-- SchedulerUnavailable    the state of APScheduler cannot be read or written
|-- WatchFailed             a repository or index of a schedule does not answer
|-- NoSuchDocument          `hud compare` names a run, revision or file that does not exist
|-- NoSuchResult            no stored result fits the filters of a command
|-- InvalidParameter        a parameter of the API or of an agent's tool is not valid
|-- DocumentNotWritten      a requested file cannot be written
|-- CommentFailed           a pull request cannot be commented on
|-- JudgeProcessKilled      a judging process was ended; nothing was saved
|-- ImportFailed            a file of another tool cannot be read; the message has file and line
|-- TraceError              a profiler's trace cannot be read; the message has file and byte
|-- ProfilerFailed          an external profiler ended with an error
|-- DashboardUnavailable    the dashboard is not installed or its port is taken
|-- ServiceError            systemd cannot run the service, or not with such a unit
|-- AgentsUnavailable       the SDK of the Model Context Protocol is not installed
`-- RunInterrupted          Ctrl-C or a signal ended the run
"""

from __future__ import annotations

from compile_hud.db.errors import CodedError


class RunnerError(CodedError):
    """Base of every error that planning and executing runs raises."""


class ConfigError(RunnerError, ValueError):
    """A setting is unknown, ill-typed or out of range; the message has file, line and key."""


class SpoolFull(RunnerError):
    """The spool takes no more results."""


class ExecutorError(RunnerError):
    """No further case can be executed."""


class ToolchainUnusable(ExecutorError):
    """The toolchain cannot measure here; nothing was measured."""


class DeviceUnavailable(ExecutorError):
    """No process can reach the device any more; earlier results are stored."""


class DiskFull(ExecutorError):
    """The disk has no room for a case; earlier results are stored."""


class BisectError(RunnerError):
    """A bisection cannot start or continue; its steps are stored."""


class RevisionUnusable(BisectError):
    """A revision cannot be built, checked out or started."""


class SearchImpossible(BisectError):
    """An alert has no revisions between its bounds that a search could measure."""


class ToolchainError(RunnerError):
    """A toolchain cannot be built or removed; existing ones are unchanged."""


class ResumeError(RunnerError):
    """The run is not interrupted, or was made in another environment."""


class LockUnavailable(RunnerError):
    """Without the lock, two runs could measure at once; the message has the remedy."""


class SchedulerBusy(RunnerError):
    """Two schedulers on one job store would enqueue every night twice."""


class SchedulerUnavailable(RunnerError):
    """Schedules cannot run: their file is damaged, or the disk is full."""


class WatchFailed(RunnerError):
    """A repository or an index does not answer; the next check retries."""


class NoSuchDocument(RunnerError, LookupError):
    """No run, revision or result file has the name."""


class InvalidParameter(RunnerError, ValueError):
    """A parameter is unknown, missing or invalid; the parameter `hint` is the next step."""


class NoSuchResult(RunnerError, LookupError):
    """No stored result fits the filters."""


class DocumentNotWritten(RunnerError):
    """A requested file cannot be written."""


class CommentFailed(RunnerError):
    """A pull request takes no comment: it is not known, or its server refuses."""


class JudgeProcessKilled(RunnerError):
    """A judging process was ended from outside; the store is unchanged."""


class ImportFailed(RunnerError, ValueError):
    """A file of another tool is damaged or has another format."""


class TraceError(RunnerError, ValueError):
    """A trace is damaged, too large, or contradicts its notes."""


class ProfilerFailed(RunnerError):
    """A program of Nsight ended with an error."""


class DashboardUnavailable(RunnerError):
    """The dashboard cannot be served."""


class ServiceError(RunnerError):
    """The service of a user cannot be installed or removed."""


class AgentsUnavailable(RunnerError):
    """`hud mcp` needs a package that is not installed."""


class RunInterrupted(RunnerError):
    """A signal or Ctrl-C stopped the run; its results are stored."""
