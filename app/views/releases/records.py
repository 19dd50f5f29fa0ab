"""The contents of the page of releases."""

from __future__ import annotations

from dataclasses import dataclass

from compile_hud.runner.analysis.release.report import ReleaseReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePage:
    """The report of one release, and the same as Markdown."""

    report: ReleaseReport
    markdown: str
