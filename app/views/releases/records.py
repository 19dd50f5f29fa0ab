"""The contents of the page of releases."""

from __future__ import annotations

from dataclasses import dataclass

from compile_hud.runner.analysis.release.report import ReleaseReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePage:
    """The report of one release, the same as Markdown, and the command that shows it again."""

    report: ReleaseReport
    markdown: str
    command: str
