"""A process that acts as `hud run` with a fake executor; the crash tests start and kill it.

`python run_process.py FOLDER [--die-at N] [--hold]` prints a line for each event. It continues an
interrupted run if there is one. `--die-at` kills it without a message after N lines of our code.
`--hold` makes its first case wait for a line on standard input. `--store` names a store outside the
folder, `--machine` the machine.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from compile_hud.runner.errors import RunnerError
from compile_hud.runner.events import CaseFinished, Event, LogMessage
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.run_plan import ResolvedRun, RunContext, RunServices, run_plans
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.persistence.spool import Spool, utc_now
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.protocol.messages import MeasureSettings
from tests.support.fakes import FakeExecutor, make_catalog

ROOT = Path(__file__).resolve().parents[3]
OURS = tuple(str(ROOT / package) for package in ("runner", "db"))


def say(*words: object) -> None:
    """Print a line at once."""
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def die_after(num_lines: int) -> None:
    """Kill this process after so many lines of our packages; 0 only counts them."""
    counted = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal counted
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        if event == "line":
            counted += 1
            if counted == num_lines:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def on_event(event: Event) -> None:
    """Print the events that the tests wait for."""
    if isinstance(event, CaseFinished):
        say("kept", event.result.case.key)
    if isinstance(event, LogMessage):
        say("said", event.text)


def main() -> None:
    """Run the plan, or the rest of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--die-at", type=int, default=0)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--store")
    parser.add_argument("--machine", default="box")
    options = parser.parse_args()
    has_to_wait = options.hold

    def on_execute(order: CaseOrder) -> None:
        nonlocal has_to_wait
        say("executing", order.case.key)
        if has_to_wait:
            has_to_wait = False
            sys.stdin.readline()

    store = Store(options.store or f"duckdb:///{options.folder / 'store.duckdb'}")
    writer = ResultWriter(store, spool=Spool(options.folder / "spool"), notify=on_event)
    context = RunContext(
        executors=(FakeExecutor(on_execute=on_execute),),
        writer=writer,
        catalog=make_catalog("bert", "vit"),
        lock_dir=options.folder / "locks",
        notify=on_event,
        services=RunServices(
            load_document=lambda run_id: load_document(store, run_id),
            now=utc_now,
        ),
    )
    if options.die_at:
        die_after(options.die_at)
    writer.drain()
    runs = [summary.run for summary in load_runs(store) if summary.run.machine == options.machine]
    unfinished = [run.id for run in runs if run.state is not RunState.FINISHED]
    request = ResolvedRun(
        suite="mine",
        selection=Selection(modes=("eager", "default")),
        toolchain="current",
        device="cpu",
        settings=MeasureSettings(),
        machine=options.machine,
        resume_id=unfinished[0] if unfinished and not options.hold else None,
    )
    try:
        (document,) = run_plans([request], context=context)
    except RunnerError as error:
        say("error", error)
        sys.exit(2)
    say("finished", document.run.id)


if __name__ == "__main__":
    main()
