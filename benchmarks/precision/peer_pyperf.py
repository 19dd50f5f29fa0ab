"""The same two latencies by pyperf, whose workers are this script again.

`python -m benchmarks.precision.peer_pyperf MODEL SHAPE` with pyperf's options. A worker builds only
its own subject.
"""

from __future__ import annotations

import argparse
import sys

import pyperf

from benchmarks.precision.peers import Call, subject

KINDS = ("eager", "compiled")


def _pass_on(command: list[str], arguments: argparse.Namespace) -> None:
    command += [arguments.model, arguments.shape, "--loops-of", arguments.loops_of]


def main() -> None:
    """Let pyperf start its workers, or be one."""
    runner = pyperf.Runner(
        add_cmdline_args=_pass_on, program_args=("-m", "benchmarks.precision.peer_pyperf")
    )
    runner.argparser.add_argument("model")
    runner.argparser.add_argument("shape")
    runner.argparser.add_argument(
        "--loops-of", required=True, help="calls a value, eager and compiled: 100,200"
    )
    arguments = runner.parse_args()
    loops = [int(text) for text in arguments.loops_of.split(",")]
    for task, kind in enumerate(KINDS):
        # The parent never calls it, and a worker has one task.
        is_mine = arguments.worker and arguments.worker_task == task
        call: Call = sys.exit
        if is_mine:
            call = subject(arguments.model, arguments.shape, compiled=kind == "compiled")
        arguments.loops = loops[task]
        runner.bench_func(kind, call)


if __name__ == "__main__":
    main()
