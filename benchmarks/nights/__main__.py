"""Thirty simulated nights with every fault, in one go.

`hud schedule`, and after a reboot `hud up`, run unchanged, with real processes, a real store and a
real receiver. Their clock is a file. Their toolchain is a worker without torch (`worker.py`),
except on Sundays, when torch measures a layer. Two schedules fire at 02:30: in Berlin, where clocks
go forward meanwhile, and in Sydney, where they go back. In the end every night must be there, once
and whole, or have a recorded reason. No process may be left, and no alert unreported.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.nights.audit import Audit, audit, gather
from benchmarks.nights.machine import NotMounted, small_disk
from benchmarks.nights.simulation import BERLIN, SYDNEY, TORCH, FaultKind, Plan, simulate
from benchmarks.startup import RESULTS, describe_machine

# 1: first version.
SCHEMA_VERSION = 1
# Clocks go forward in Berlin on 29 March (night 14), back in Sydney on 5 April (night 21).
PLAN = Plan(
    first=date(2026, 3, 15),
    num_nights=30,
    rules=(SYDNEY, BERLIN, TORCH),
    troubles={
        2: (FaultKind.KILLED,),
        4: (FaultKind.REBOOTED,),
        6: (FaultKind.DISK_FULL,),
        8: (FaultKind.LOCKED,),
        9: (FaultKind.HANGS, FaultKind.DEAF),
        10: (FaultKind.LEAKS, FaultKind.KILLED, FaultKind.DEAF),
        11: (FaultKind.DEAF,),
        12: (FaultKind.LOCKED_LATER,),
        14: (FaultKind.KILLED, FaultKind.HANGS),
        15: (FaultKind.OFF,),
        16: (FaultKind.DEVICE_LOST,),
        18: (FaultKind.SLOWER,),
        20: (FaultKind.DEVICE_GONE,),
        21: (FaultKind.REBOOTED, FaultKind.LEAKS),
        23: (FaultKind.DISK_FULL, FaultKind.HANGS),
        25: (FaultKind.LOCKED_LATER, FaultKind.LEAKS),
        27: (FaultKind.DEVICE_LOST, FaultKind.KILLED),
    },
)


def table_of(result: Audit) -> Table:
    """Return the outcome of each night as a table."""
    table = Table("night", "schedule", "thrown in", "what came of it", "explained by")
    for fate in result.fates:
        cells = (str(fate.night), fate.schedule, fate.thrown_in, fate.came, fate.explained_by)
        # A reason may name a table of hud.toml, whose brackets would be read as markup.
        table.add_row(*map(escape, cells))
    return table


def document_of(result: Audit) -> dict[str, object]:
    """Return the outcome of the nights as JSON values."""
    return {
        "fates": [{**dataclasses.asdict(item), "night": str(item.night)} for item in result.fates],
        "problems": list(result.problems),
    }


@click.command()
@click.option("--nights", default=PLAN.num_nights, show_default=True, help="Only the first ones.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS / "nights.json")
def main(*, nights: int, output: Path) -> None:
    """Simulate the nights, show and write their outcome; return 1 if something is wrong."""
    machine = describe_machine()
    plan = dataclasses.replace(
        PLAN,
        num_nights=nights,
        troubles={night: names for night, names in PLAN.troubles.items() if night < nights},
    )
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            with small_disk(folder / "state"):
                box = simulate(plan, folder=folder, tell=lambda text: click.echo(text, err=True))
                result = audit(gather(box), plan=plan)
        except NotMounted as error:
            raise click.ClickException(str(error)) from error
        taken = box.taken()
    document = {
        "schema_version": SCHEMA_VERSION,
        "machine": machine,
        "wall_s": round(time.monotonic() - started_s, 1),
        "first": plan.first.isoformat(),
        "num_nights": plan.num_nights,
        "num_starts": box.seen.num_starts,
        "num_kills": box.seen.num_kills,
        "num_notifications_taken": len(taken),
        **document_of(result),
    }
    output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    Console(width=180).print(table_of(result))
    for problem in result.problems:
        click.echo(problem)
    click.echo(f"{len(result.fates)} nights of schedules, {len(result.problems)} problems")
    sys.exit(int(bool(result.problems)))


if __name__ == "__main__":
    main()
