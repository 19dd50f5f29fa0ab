"""Logs of TORCH_TRACE of the cases that a policy chooses, for tlparse and `hud compiles`.

Such a log slows a compilation. The measured launches therefore never write one: a chosen case
compiles once more, in a launch of its own that ends after the compilation.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compile_hud.db.records.results import Case, CaseResult, Outcome
from compile_hud.runner.protocol.files import whole_file
from compile_hud.runner.protocol.messages import TracePolicy

logger = logging.getLogger(__name__)

FOLDER = "compile-traces"
_CODE_NAME = "generated-code.json"
_REPORT = "tlparse"
# A log of many graphs takes some seconds.
TLPARSE_S = 120.0
_FAILURES = (Outcome.FAILED, Outcome.INACCURATE)

RunProgram = Callable[..., Any]


class CompileTraces:
    """The logs below `folder`, one folder for each run and case.

    The hashes of the generated code of each case, of its last run with `python`, are next to them:
    another toolchain generates other code.
    """

    def __init__(
        self,
        folder: Path,
        *,
        python: Path = Path(sys.executable),
        which: Callable[[str], str | None] = shutil.which,
        run: RunProgram = subprocess.run,
    ) -> None:
        self._folder = folder
        self._python = python
        self._which = which
        self._run = run

    def folder_of(self, case: Case, *, run_id: str) -> Path:
        """Return the folder of a case, which may not exist."""
        return self._folder / run_id / case.key.replace("/", "-")

    def is_chosen(self, result: CaseResult, *, policy: TracePolicy) -> bool:
        """Return whether `policy` chooses the case of `result`; remember its generated code."""
        case, sha256 = result.case, result.details.get("generated_code_sha256")
        if case.backend != "inductor" or policy is TracePolicy.NEVER:
            return False
        has_changed = isinstance(sha256, str) and self._has_changed(case, sha256)
        if policy is TracePolicy.ALWAYS:
            return result.outcome is Outcome.OK or result.outcome in _FAILURES
        if result.outcome in _FAILURES:
            return True
        return policy is TracePolicy.CHANGED and has_changed and result.outcome is Outcome.OK

    def details(self, folder: Path) -> dict[str, str]:
        """Return the paths of the log and of its report by tlparse, empty without a log."""
        logs = sorted(folder.glob("*.log"))
        if not logs:
            return {}
        paths = {"folder": str(folder)}
        if (report := self._report(logs[0])) is not None:
            paths[_REPORT] = str(report)
        return paths

    def _report(self, log: Path) -> Path | None:
        program = self._which("tlparse")
        if program is None:
            return None
        target = log.parent / _REPORT
        command = [program, str(log), "-o", str(target), "--overwrite", "--no-browser"]
        try:
            self._run(command, check=True, capture_output=True, timeout=TLPARSE_S)
        except (OSError, subprocess.SubprocessError) as error:
            logger.warning("tlparse made no report of %s: %s", log, error)
            return None
        index = target / "index.html"
        return index if index.is_file() else None

    def _has_changed(self, case: Case, sha256: str) -> bool:
        """Return whether the last run generated other code; the first one has nothing before it."""
        path = self._folder / _CODE_NAME
        known = _hashes(path)
        key = f"{self._python}: {case.key}"
        before = known.get(key)
        if before != sha256:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(path) as stream:
                    stream.write(json.dumps({**known, key: sha256}).encode())
            except OSError as error:
                logger.warning("cannot write %s: %s", path, error)
        return before is not None and before != sha256


def _hashes(path: Path) -> dict[str, str]:
    try:
        known: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known
