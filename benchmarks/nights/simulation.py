"""Nights one after the other, with a clock that jumps, and with faults."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from enum import StrEnum
from pathlib import Path
from zoneinfo import ZoneInfo

from benchmarks.nights.faults import Fault
from benchmarks.nights.machine import UP, Machine, Receiver

SUNDAY = 6
# The schedules have fired at this time.
FIRED = timedelta(minutes=1)
# A failed job is tried again after 5 minutes, and a quarter of an hour after that.
SECOND_TRY, THIRD_TRY = timedelta(minutes=7), timedelta(minutes=35)
# A machine that was off at night is switched on in the morning.
MORNING = timedelta(hours=5)
MODELS = ("steady", "hangs", "leaks")
CONFIG = """
[machine]
name = "simulated"
[toolchains]
current = "{pretender}"
torch = "{python}"
[run]
launches = 1
max_launches = 1
target_interval = 0
rounds = 6
budget_s = 0.02
timeout_s = {timeout_s}
kernels = false
confirm = false
reference_cases = false
[suites.both]
models = ["steady", "hangs", "leaks"]
modes = ["eager"]
phases = ["inference"]
[suites.one]
models = "steady"
modes = ["eager"]
phases = ["inference"]
[suites.tiny]
models = "tiny"
modes = ["eager"]
phases = ["inference"]
[receivers.ops]
url = "{url}"
allow_private = true
[models.steady]
build = "model.py"
[models.hangs]
build = "model.py"
[models.leaks]
build = "model.py"
[models.tiny]
build = "model.py"
"""
SCHEDULE = """
[schedules.{name}]
at = "{at}"
timezone = "{zone}"
suite = "{suite}"
toolchain = "{toolchain}"
"""
MODEL = """
import torch
from torch import nn

def build(config):
    return nn.Linear(32, 32)

def example_inputs(config, *, seed):
    return {"input": torch.randn(4, 32, generator=torch.Generator().manual_seed(seed))}
"""


class FaultKind(StrEnum):
    """The faults of a night."""

    KILLED = "the runner is killed"
    REBOOTED = "the machine is rebooted"
    OFF = "the machine is off until morning"
    DISK_FULL = "the disk is full"
    LOCKED = "the store is locked"
    LOCKED_LATER = "the store is locked while a case is measured"
    HANGS = "a model hangs"
    LEAKS = "a model leaks"
    SLOWER = "a model is slower from now on"
    DEVICE_LOST = "the device is lost for a while"
    DEVICE_GONE = "the device is lost for the night"
    DEAF = "the receiver is down"


FAULTS = {
    FaultKind.HANGS: Fault.HANGS,
    FaultKind.LEAKS: Fault.LEAKS,
    FaultKind.DEVICE_GONE: Fault.DEVICE_LOST,
}
# These faults make a job fail, which is tried again a while later.
PUTS_BACK = frozenset(
    {
        FaultKind.DISK_FULL,
        FaultKind.LOCKED,
        FaultKind.LOCKED_LATER,
        FaultKind.DEVICE_LOST,
        FaultKind.DEVICE_GONE,
    }
)
# These faults happen during the measurement of a case.
BLOWS = frozenset(
    {
        FaultKind.KILLED,
        FaultKind.REBOOTED,
        FaultKind.DISK_FULL,
        FaultKind.LOCKED_LATER,
        FaultKind.DEVICE_LOST,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A schedule of the simulation: every night at `at`, or only on Sundays."""

    name: str
    zone: str
    suite: str
    at: time = time(2, 30)
    toolchain: str = "current"
    is_weekly: bool = False

    def moments(self, night: date) -> list[datetime]:
        """Return the times, in UTC, of the schedule in `night`: two if clocks go back."""
        if self.is_weekly and night.weekday() != SUNDAY:
            return []
        local = datetime.combine(night, self.at, tzinfo=ZoneInfo(self.zone))
        return sorted({local.replace(fold=fold).astimezone(timezone.utc) for fold in (0, 1)})

    def text(self) -> str:
        """Return it in the form of hud.toml."""
        return SCHEDULE.format(
            name=self.name,
            at=f"{'sun ' * self.is_weekly}{self.at:%H:%M}",
            zone=self.zone,
            suite=self.suite,
            toolchain=self.toolchain,
        )


# The order of schedules in a night; a fault comes at BERLIN.
SYDNEY = Rule(name="sydney", zone="Australia/Sydney", suite="one")
BERLIN = Rule(name="berlin", zone="Europe/Berlin", suite="both")
TORCH = Rule(
    name="torch", zone="UTC", at=time(5, 0), suite="tiny", toolchain="torch", is_weekly=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The nights from `first` on, and their faults by number from 0."""

    first: date
    num_nights: int
    troubles: Mapping[int, tuple[FaultKind, ...]] = field(default_factory=dict)
    rules: tuple[Rule, ...] = (SYDNEY, BERLIN)
    # Longer than the few milliseconds of a healthy case, and the whole cost of a hanging one.
    timeout_s: float = 4.0

    def nights(self) -> list[tuple[date, tuple[FaultKind, ...]]]:
        """Return each night by its date, with its faults."""
        return [
            (self.first + timedelta(days=number), self.troubles.get(number, ()))
            for number in range(self.num_nights)
        ]


def simulate(plan: Plan, *, folder: Path, tell: Callable[[str], None]) -> Machine:
    """Simulate the nights of `plan` in `folder`, and return the machine, switched off."""
    receiver = Receiver(folder)
    machine = Machine(folder, config=_config(plan, folder=folder, url=receiver.url))
    try:
        machine.set_clock(_noon(plan.first) - timedelta(days=1))
        machine.start()
        # Schedules begin when they are first seen.
        machine.live_until(_noon(plan.first) - timedelta(days=1))
        for number, (night, troubles) in enumerate(plan.nights()):
            tell(f"{night}: {', '.join(troubles) or 'nothing'}")
            if FaultKind.DEAF in troubles:
                receiver.kill()
            else:
                receiver.start()
            _live_through(machine, night, troubles, rules=plan.rules, model=MODELS[number % 3])
            # By day a missed night can be made up for, and waiting messages can be sent.
            machine.live_until(_noon(night))
        machine.stop()
    finally:
        machine.end_all()
        receiver.kill()
    return machine


def _config(plan: Plan, *, folder: Path, url: str) -> str:
    pretender = folder / "python"
    pretender.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m benchmarks.nights.worker\n')
    pretender.chmod(0o755)
    (folder / "model.py").write_text(MODEL, encoding="ascii")
    text = CONFIG.format(
        pretender=pretender, python=sys.executable, url=url, timeout_s=plan.timeout_s
    )
    return text + "".join(rule.text() for rule in plan.rules)


def _live_through(
    machine: Machine,
    night: date,
    troubles: tuple[FaultKind, ...],
    *,
    rules: tuple[Rule, ...],
    model: str,
) -> None:
    faults = {FAULTS[item] for item in troubles if item in FAULTS}
    for rule in rules:
        if rule is BERLIN:
            for fault in faults:
                machine.faults.add(fault)
            if FaultKind.SLOWER in troubles:
                machine.faults.add(Fault.SLOWER)
            _fire_troubled(machine, rule.moments(night), troubles, model=model)
            for fault in faults:
                machine.faults.remove(fault)
        else:
            for moment in rule.moments(night):
                machine.live_until(moment + FIRED)


def _fire_troubled(
    machine: Machine, moments: list[datetime], troubles: tuple[FaultKind, ...], *, model: str
) -> None:
    *_, fires_at = moments
    with ExitStack() as hindrances:
        if FaultKind.LOCKED in troubles:
            hindrances.enter_context(machine.locked_store())
        if FaultKind.OFF in troubles:
            machine.switch_off()
            machine.set_clock(fires_at + MORNING)
            machine.start()
            machine.live_until(fires_at + MORNING)
            return
        if BLOWS.intersection(troubles):
            machine.hold_at(model, moment=fires_at + FIRED)
            _strike(machine, troubles, hindrances=hindrances)
            machine.faults.remove(Fault.HELD)
        machine.live_until(fires_at + FIRED)
        if not PUTS_BACK.intersection(troubles):
            return
        machine.live_until(fires_at + SECOND_TRY)
    machine.live_until(fires_at + THIRD_TRY)


def _strike(machine: Machine, troubles: tuple[FaultKind, ...], *, hindrances: ExitStack) -> None:
    """Apply the faults that happen during the measurement of a case; they last as long as
    `hindrances`.
    """
    if FaultKind.DISK_FULL in troubles:
        hindrances.enter_context(machine.full_disk())
    if FaultKind.LOCKED_LATER in troubles:
        hindrances.enter_context(machine.locked_store())
    if FaultKind.DEVICE_LOST in troubles:
        machine.faults.add(Fault.DEVICE_LOST)
        hindrances.callback(machine.faults.remove, Fault.DEVICE_LOST)
    if FaultKind.KILLED in troubles:
        machine.kill()
        machine.start()
    if FaultKind.REBOOTED in troubles:
        machine.switch_off()
        machine.start(UP)


def _noon(day: date) -> datetime:
    return datetime.combine(day, time(12), tzinfo=timezone.utc)
