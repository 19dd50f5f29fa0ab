"""The exit codes of `hud`."""

from __future__ import annotations

# A shell reports this status for a program that SIGINT ended.
EXIT_INTERRUPTED = 130
# A wrong command line or setting, or a store that cannot be used.
EXIT_USAGE = 2
# A comparison that could not tell whether anything changed.
EXIT_INCONCLUSIVE = 3
