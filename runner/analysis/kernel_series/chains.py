"""Chain the kernels of one case over its results: the seconds of each kernel, night by night.

Method: a kernel has a key without the numbers that Inductor gives by order: its label, library,
inputs, operators and code. If the keys of two neighbouring results differ, the matching of the
kernel diff (matching.py) joins them. All keys that it ever joins are one chain, whose time is the
sum of its kernels: a kernel that is split or fused continues as the sum of its group. Keys that
come back after some nights continue their chain.
Assumptions: the results are of one case in one environment. Nights may be missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from compile_hud.db.records.kernels import Kernel
from compile_hud.db.records.summaries import KernelNight
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from compile_hud.runner.analysis.kernels.matching import Match, match_kernels

# A label, library, device, inputs, operators and code.
KernelKey = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChain:
    """One kernel over all nights; `seconds` has NaN where it did not run.

    `keys` identify its kernels, the heaviest of its newest night first. `variants` has the names of
    the kernels of each night with the choices of the autotuner, "" where it did not run.
    """

    keys: tuple[KernelKey, ...]
    seconds: np.ndarray
    variants: tuple[str, ...]

    @property
    def label(self) -> str:
        """Return the labels of the kernels of the newest night."""
        return " + ".join(dict.fromkeys(label for label, *_ in self.keys))


def kernel_key(kernel: Kernel) -> KernelKey:
    """Return the identity of a kernel from night to night; renumbering does not change it."""
    code = kernel.source_hash or str(kernel.launch.get("kernel_hash", ""))
    # Generated kernels have a label without numbers, those of a library only a name.
    return (
        kernel.label,
        kernel.library,
        kernel.device,
        kernel.shapes,
        json.dumps(sorted(kernel.operators)),
        code,
    )


def chain_kernels(
    nights: Sequence[KernelNight], *, side_of: Callable[[KernelNight], KernelSide]
) -> list[KernelChain]:
    """Return the chains of `nights`, oldest first, those with the longest kernels first.

    `side_of` returns a night with its code; it is called only where kernels changed. The time
    outside of kernels (dispatch) has no chain.
    """
    by_night = [_by_key(night.kernels) for night in nights]
    parents: dict[KernelKey, KernelKey] = {key: key for times in by_night for key in times}
    compared: set[tuple[frozenset[KernelKey], frozenset[KernelKey]]] = set()
    for index in range(1, len(nights)):
        pair = (frozenset(by_night[index - 1]), frozenset(by_night[index]))
        # Autotuning alternates between the same few kernels: each pair is matched once.
        if pair[0] == pair[1] or pair in compared or pair[::-1] in compared:
            continue
        compared.add(pair)
        sides = [side_of(nights[index - 1]), side_of(nights[index])]
        for match in match_kernels(sides[0], candidate=sides[1]):
            _join(parents, _keys_of(match))
    return _chains(by_night, parents)


def _chains(
    by_night: Sequence[Mapping[KernelKey, _KeyTime]], parents: dict[KernelKey, KernelKey]
) -> list[KernelChain]:
    members: dict[KernelKey, list[KernelKey]] = {}
    for key in parents:
        members.setdefault(_root(parents, key), []).append(key)
    chains = []
    for keys in members.values():
        of_night = [{key: times[key] for key in keys if key in times} for times in by_night]
        newest = next(times for times in reversed(of_night) if times)
        chains.append(
            KernelChain(
                keys=tuple(sorted(newest, key=lambda key: (-newest[key].seconds, key))),
                seconds=np.array([_sum_of(times) for times in of_night]),
                variants=tuple(_variant_of(times) for times in of_night),
            )
        )
    return sorted(chains, key=lambda chain: (-float(np.nanmax(chain.seconds)), chain.keys))


def _sum_of(times: Mapping[KernelKey, _KeyTime]) -> float:
    return math.fsum(item.seconds for item in times.values()) if times else math.nan


def _variant_of(times: Mapping[KernelKey, _KeyTime]) -> str:
    # Without the code: other code with the same choices is news.
    named = sorted((label, sorted(item.choices)) for (label, *_), item in times.items())
    return repr(named) if named else ""


@dataclass(slots=True)
class _KeyTime:
    """The seconds of all kernels with one key in a night, and the autotuner's choices."""

    seconds: float = 0.0
    choices: set[str] = field(default_factory=set)


def _by_key(kernels: Iterable[Kernel]) -> dict[KernelKey, _KeyTime]:
    times: dict[KernelKey, _KeyTime] = {}
    for kernel in kernels:
        if not kernel.is_dispatch and kernel.total_s > 0:
            item = times.setdefault(kernel_key(kernel), _KeyTime())
            item.seconds += kernel.total_s
            item.choices.add(_choices_of(kernel))
    return times


def _choices_of(kernel: Kernel) -> str:
    # A replayed graph has no configuration, but the grid and the block that follow from it.
    choices = kernel.config or {name: kernel.launch.get(name) for name in ("grid", "block")}
    return json.dumps(dict(choices), sort_keys=True, default=str)


def _keys_of(match: Match) -> list[KernelKey]:
    if not (match.baseline and match.candidate):
        return []
    groups = (*match.baseline, *match.candidate)
    return [
        kernel_key(kernel)
        for group in groups
        if not group.is_dispatch
        for kernel in group.kernels
        if kernel.total_s > 0
    ]


def _join(parents: dict[KernelKey, KernelKey], keys: Sequence[KernelKey]) -> None:
    for key in keys[1:]:
        parents[_root(parents, key)] = _root(parents, keys[0])


def _root(parents: dict[KernelKey, KernelKey], key: KernelKey) -> KernelKey:
    while parents[key] != key:
        # Paths are halved on the way, so that they stay short.
        parents[key] = parents[parents[key]]
        key = parents[key]
    return key
