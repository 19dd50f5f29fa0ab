"""The errors of the analysis.

AnalysisError
|-- NotComparableError   two runs happened in environments whose numbers do not compare
|-- AlertStateError      an alert cannot go to the requested state
|   |-- ChangedMeanwhile the alert has changed since it was read
|   `-- ReasonMissing    the decision needs a reason
`-- NoKernelScript       too little is known of a kernel for a standalone script
"""

from __future__ import annotations

from compile_hud.db.errors import CodedError


class AnalysisError(CodedError, ValueError):
    """Base of every error that the analysis raises."""


class NotComparableError(AnalysisError):
    """Two runs happened in environments whose numbers do not compare; names the facts."""


class AlertStateError(AnalysisError):
    """An alert cannot change to this state, or the decision has no author."""


class ChangedMeanwhile(AlertStateError):
    """An alert has changed since the user looked at it."""


class ReasonMissing(AlertStateError):
    """A failure can be expected only with a reason."""


class NoKernelScript(AnalysisError):
    """Too little is known of a kernel to write a script that runs it alone."""
