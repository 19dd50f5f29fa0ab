"""The speed of the machine: a fixed piece of work that is timed between the samples.

A core shares its clock and its execution units with neighbours that this process cannot see. Its
speed therefore changes from one second to the next. The time of the same work in the same rounds
shows it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.latency.timing import Side

# These sizes never change, since series of years are normalised by them; another size needs another
# metric. Half is arithmetic, one product of 14 MFLOP and 0.44 MB. Half is launching, a chain of
# tiny additions. Each takes 0.1 to 0.4 ms on current cores.
WIDTH = 192
CHAIN_LENGTH = 60
CHAIN_WIDTH = 64
# The first product sets up the library.
NUM_WARMUP_CALLS = 3


def open_speed_probe(device: Device) -> Side | None:
    """Return the fixed work as a side to time; None without the CPU time of a single thread."""
    if device.is_cuda or device.num_threads != 1:
        return None
    work = fixed_work()
    for _ in range(NUM_WARMUP_CALLS):
        work()
    return Side(name="pace", step=work)


def fixed_work() -> Callable[[], torch.Tensor]:
    """Return the fixed work with preallocated tensors."""
    factor = torch.full((WIDTH, WIDTH), 0.5)
    product = torch.empty_like(factor)
    start = torch.zeros(CHAIN_WIDTH)

    def work() -> torch.Tensor:
        with torch.no_grad():
            torch.mm(factor, factor, out=product)
            link = start
            for _ in range(CHAIN_LENGTH):
                link = link + 1.0
        return link

    return work
