"""Measure on a GPU for a limited time: `python -m benchmarks.gpu --seconds 520 --out DIR`.

The campaign reads the ledger, measures the cases that are worth most per second, and writes each
result at once. It stops in time, whatever hangs. `--plan` only prints its plan.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.gpu.campaign import Campaign, Options, plan_lines
from benchmarks.gpu.chunks import CHUNKS, Work, works

# Time to write the results and to end all processes.
_RESERVE_S = 6.0
# After so many more seconds the process ends itself at once.
_GRACE_S = 8.0
SUCCESS, STOPPED = 0, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign or print its plan; return the exit status."""
    start_s = time.monotonic()
    args = _parser().parse_args(arguments)
    options = Options(
        device=args.device,
        until_s=start_s + args.seconds - _RESERVE_S,
        width=args.width,
        memory_limit_gb=args.memory_gb,
        ledger=args.ledger,
        renewed=frozenset(args.renew),
    )
    candidates = _candidates(args)
    if args.plan:
        for line in plan_lines(candidates, options=options, seconds=args.seconds):
            print(line)
        return SUCCESS
    # Threads may wait for processes that hang; beyond this no wait continues.
    watchdog = threading.Timer(args.seconds + _GRACE_S, _stop)
    watchdog.daemon = True
    watchdog.start()
    _run(candidates, options=options, out=args.out)
    sys.stdout.flush()
    # Any remaining thread waits for a process that was killed.
    os._exit(SUCCESS)


def _candidates(args: argparse.Namespace) -> list[Work]:
    """Return the cases that the arguments select."""
    chunks = [chunk for chunk in CHUNKS if not args.chunk or chunk.name in args.chunk]
    candidates = [
        work
        for work in works(chunks, device=args.device, size=args.size)
        if (not args.model or work.case.model in args.model)
        and (not args.mode or work.case.variant in args.mode)
        and (not args.phase or str(work.case.phase) in args.phase)
    ]
    if not args.launches:
        return candidates
    number = {"num_launches": args.launches, "max_launches": args.launches}
    return [replace(work, settings=replace(work.settings, **number)) for work in candidates]


def _run(candidates: Sequence[Work], *, options: Options, out: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hud-gpu-", ignore_cleanup_errors=True) as folder:
        with ThreadPoolExecutor(max_workers=2) as finishing:
            campaign = Campaign(
                candidates,
                options=options,
                state=Path(folder),
                out=out,
                finishing=finishing,
                now=lambda: datetime.now(timezone.utc),
            )
            campaign.run()
        campaign.report()


def _stop() -> None:
    print("stopped: something did not end in time", file=sys.stderr, flush=True)
    os._exit(STOPPED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--seconds", type=float, default=520.0, help="when everything has ended")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"))
    parser.add_argument("--plan", action="store_true", help="print what it would do and end")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--chunk", action="append", default=[], help="this chunk alone; repeatable")
    parser.add_argument("--model", action="append", default=[], help="this model alone; repeatable")
    parser.add_argument("--size", default="", help="this size in place of full, such as tiny")
    parser.add_argument("--width", type=int, default=15, help="launches that compile at a time")
    parser.add_argument("--launches", type=int, default=0, help="of each case, whatever is planned")
    parser.add_argument("--mode", action="append", default=[], help="this mode alone; repeatable")
    parser.add_argument("--phase", action="append", default=[], help="this phase alone; repeatable")
    parser.add_argument("--renew", action="append", default=[], help="measure this model anew")
    parser.add_argument("--memory-gb", type=float, default=56.0, help="of the device, for a wave")
    parser.add_argument("--ledger", type=Path, default=Path(__file__).with_name("ledger"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
