"""Run one launch in a process of its own; the argument is its REQUEST.json.

A worker host forks its launches. A profiler that starts a program can lose track of a fork that
does not execute a new program. Profiled launches therefore start like this.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from compile_hud.db.records.results import Outcome
from compile_hud.runner.measure.launch import run_launch
from compile_hud.runner.protocol.files import write_json
from compile_hud.runner.protocol.messages import LaunchRequest


def main(arguments: Sequence[str]) -> int:
    """Execute the launch in the file and write its report; return the exit status."""
    (path,) = arguments
    request = LaunchRequest.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = request.cache_dir
    report = run_launch(request)
    write_json(Path(request.report_path), report.to_json())
    if report.outcome is Outcome.OK:
        return 0
    sys.stderr.write(f"the launch ended {report.outcome}: {report.reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
