"""Thirty nights with everything that goes wrong, in one go.

`hud schedule`, and after a reboot `hud up`, run as they are, with real processes, a real store and
a real receiver; their clock is a file, and their toolchain a worker without torch (`worker.py`),
but for Sundays, when torch measures a layer. Two schedules fire at 02:30, in Berlin where clocks go
forward meanwhile, and in Sydney where they go back. In the end every night must be there, once and
whole, or say why not; no process may be left, and no alert untold.
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
from benchmarks.nights.simulation import BERLIN, SYDNEY, TORCH, Plan, Trouble, simulate
from benchmarks.startup import RESULTS, describe_machine

# 1: first version.
SCHEMA_VERSION = 1
# Clocks go forward in Berlin on 29 March (night 14), back in Sydney on 5 April (night 21).
PLAN = Plan(
    first=date(2026, 3, 15),
    num_nights=30,
    rules=(SYDNEY, BERLIN, TORCH),
    troubles={
        2: (Trouble.KILLED,),
        4: (Trouble.REBOOTED,),
        6: (Trouble.DISK_FULL,),
        8: (Trouble.LOCKED,),
        9: (Trouble.HANGS, Trouble.DEAF),
        10: (Trouble.LEAKS, Trouble.KILLED, Trouble.DEAF),
        11: (Trouble.DEAF,),
        12: (Trouble.LOCKED_LATER,),
        14: (Trouble.KILLED, Trouble.HANGS),
        15: (Trouble.OFF,),
        16: (Trouble.DEVICE_LOST,),
        18: (Trouble.SLOWER,),
        20: (Trouble.DEVICE_GONE,),
        21: (Trouble.REBOOTED, Trouble.LEAKS),
        23: (Trouble.DISK_FULL, Trouble.HANGS),
        25: (Trouble.LOCKED_LATER, Trouble.LEAKS),
        27: (Trouble.DEVICE_LOST, Trouble.KILLED),
    },
)


def table_of(found: Audit) -> Table:
    """Return what came of each night as a table."""
    table = Table("night", "schedule", "thrown in", "what came of it", "explained by")
    for fate in found.fates:
        cells = (str(fate.night), fate.schedule, fate.thrown_in, fate.came, fate.explained_by)
        # A reason may name a table of hud.toml, which would be taken for markup.
        table.add_row(*map(escape, cells))
    return table


def document_of(found: Audit) -> dict[str, object]:
    """Return what came of the nights as JSON values."""
    return {
        "fates": [{**dataclasses.asdict(item), "night": str(item.night)} for item in found.fates],
        "problems": list(found.problems),
    }


@click.command()
@click.option("--nights", default=PLAN.num_nights, show_default=True, help="Only the first ones.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS / "nights.json")
def main(*, nights: int, output: Path) -> None:
    """Simulate the nights, show and write what came of them; 1 when something is wrong."""
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
                found = audit(gather(box), plan=plan)
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
        **document_of(found),
    }
    output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    Console(width=180).print(table_of(found))
    for problem in found.problems:
        click.echo(problem)
    click.echo(f"{len(found.fates)} nights of schedules, {len(found.problems)} problems")
    sys.exit(int(bool(found.problems)))


if __name__ == "__main__":
    main()
