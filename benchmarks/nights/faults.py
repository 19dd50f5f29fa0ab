"""Faults as files of a folder that every process of the simulation looks at."""

from __future__ import annotations

import os
import time
from enum import StrEnum
from pathlib import Path

FOLDER_VARIABLE = "NIGHTS_FOLDER"
PAUSE_S = 0.02
LEAK_STEP_BYTES = 1 << 24


class Fault(StrEnum):
    """A fault that is present or not."""

    # The model that the file names waits, so that something can happen during its measurement.
    HELD = "held"
    HANGS = "hangs"
    LEAKS = "leaks"
    SLOWER = "slower"
    DEVICE_LOST = "device-lost"


class Faults:
    """The faults of a simulation in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "faults"
        self._folder.mkdir(exist_ok=True)

    def has(self, fault: Fault) -> bool:
        """Return whether `fault` is present."""
        return (self._folder / fault).exists()

    def add(self, fault: Fault) -> None:
        """Add `fault`."""
        (self._folder / fault).touch()

    def remove(self, fault: Fault) -> None:
        """Remove `fault`."""
        (self._folder / fault).unlink(missing_ok=True)

    def hold(self, model: str) -> None:
        """Let the next measurement of `model` wait until the file HELD is removed."""
        (self._folder / Fault.HELD).write_text(model, encoding="ascii")

    def is_blocked(self, model: str) -> bool:
        """Return whether `model` has to wait."""
        try:
            return (self._folder / Fault.HELD).read_text(encoding="ascii") == model
        except FileNotFoundError:
            return False


def of_environment() -> Faults:
    """Return the faults of the simulation that this process belongs to."""
    return Faults(Path(os.environ[FOLDER_VARIABLE]))


def meet(model: str, faults: Faults) -> None:
    """Suffer the faults of the model: wait for HELD, hang, or use up the memory."""
    if faults.is_blocked(model):
        (Path(os.environ[FOLDER_VARIABLE]) / "is-held").touch()
    while faults.is_blocked(model):
        time.sleep(PAUSE_S)
    while model == "hangs" and faults.has(Fault.HANGS):
        time.sleep(PAUSE_S)
    if model == "leaks" and faults.has(Fault.LEAKS):
        taken = []
        while True:
            taken.append(bytearray(LEAK_STEP_BYTES))
