"""A real Ray cluster on this machine: a head that measures nothing, and nodes that do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compile_hud.runner.cluster.ray_cluster import MACHINE_LABEL, resource_of

ROOT = Path(__file__).resolve().parents[3]


class RayNodes:
    """The nodes, each with a state directory of its own in `folder`, named by their machines."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self._folder = folder
        self._nodes: dict[str, Any] = {}
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False},
        )

    @property
    def address(self) -> str:
        """Return the address for drivers."""
        return str(self._cluster.address)

    def state_dir(self, machine: str) -> Path:
        """Return the state directory of a node; no process of another one names it."""
        return self._folder / machine

    def add(self, machine: str, *, core: int | None = None) -> None:
        """Start a node that offers only the CPU core with this number."""
        cores = os.sched_getaffinity(0)
        state_dir = self.state_dir(machine)
        if core is not None:
            os.sched_setaffinity(0, {core})
        try:
            self._nodes[machine] = self._cluster.add_node(
                num_cpus=1,
                resources={resource_of("cpu"): 1},
                labels={MACHINE_LABEL: machine},
                env_vars={
                    "HUD_STATE_DIR": str(state_dir),
                    # Two machines that happen to be one.
                    "HUD_LOCK_DIR": str(state_dir / "locks"),
                    "PYTHONPATH": f"{ROOT}:{ROOT}/src",
                    # By default all other work of the machine precedes a measurement.
                    "RAY_worker_niceness": "0",
                },
            )
        finally:
            os.sched_setaffinity(0, cores)

    def kill(self, machine: str) -> None:
        """End a node without notice."""
        self._cluster.remove_node(self._nodes.pop(machine), allow_graceful=False)

    def processes(self, machine: str) -> list[int]:
        """Return the living processes of worker hosts, and of cases, that a node started."""
        mark = f"HUD_STATE_DIR={self.state_dir(machine)}".encode()
        return [
            int(process.name)
            for process in Path("/proc").glob("[0-9]*")
            if mark in (environment := _environment(process)) and b"HUD_WORKER_HOST=" in environment
        ]

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        # The process ended meanwhile, or belongs to another user.
        return b""


@contextmanager
def ray_nodes(folder: Path, *machines: str) -> Iterator[RayNodes]:
    """Yield a cluster with nodes of these names, and end it."""
    nodes = RayNodes(folder)
    try:
        for machine in machines:
            nodes.add(machine)
        yield nodes
    finally:
        nodes.close()
