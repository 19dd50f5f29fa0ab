"""The exit codes of `hud`."""

from __future__ import annotations

# What a shell reports for a program that SIGINT ended.
EXIT_INTERRUPTED = 130
# An error of whoever typed the command, or of the place it is typed in.
EXIT_USAGE = 2
