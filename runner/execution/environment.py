"""The environment of a run: its revision and its comparability fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from compile_hud.db.records.results import COMPILE_AHEAD, Run

# Two results compare only if these facts are equal. Torch's version is not among them: it is the
# revision, whose effect is measured. The host name is not either: machines of one kind compare.
COMPARABILITY_KEYS = (
    "device_name",
    "driver_version",
    "cuda_version",
    "python_minor",
    "cpu_model",
    "cpu_capability",
    "num_cpus",
    "num_threads",
    "flags",
)
# Compile times depend on how many cases compile at a time. Only runs that compile ahead say so.
OPTIONAL_KEYS = (COMPILE_AHEAD,)
# On a CPU these facts depend on the build of torch, which is part of the revision.
GPU_KEYS = ("driver_version", "cuda_version")


def compares(facts: Mapping[str, Any], run: Run) -> bool:
    """Return whether launches that compile alone under `facts` compare with `run`.

    Their latencies do also if the run compiled ahead; only its compile times do not.
    """
    alone = {key: value for key, value in run.environment.items() if key not in OPTIONAL_KEYS}
    return fingerprint(facts) in (run.fingerprint, fingerprint(alone))


def fingerprint(facts: Mapping[str, Any]) -> str:
    """Return the SHA-256 over the comparability subset of `facts`, as 64 hex digits."""
    subset = {key: facts.get(key) for key in _keys(facts)}
    return hashlib.sha256(json.dumps(subset, sort_keys=True).encode()).hexdigest()


def differing_keys(baseline: Mapping[str, Any], *, candidate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the comparability keys whose facts differ."""
    keys = dict.fromkeys((*_keys(baseline), *_keys(candidate)))
    return tuple(key for key in keys if baseline.get(key) != candidate.get(key))


def _keys(facts: Mapping[str, Any]) -> tuple[str, ...]:
    # Runs of before compile ahead lack the fact, and compare with those that compile alone.
    keys = (*COMPARABILITY_KEYS, *(key for key in OPTIONAL_KEYS if key in facts))
    if facts.get("device_kind") != "cpu":
        return keys
    return tuple(key for key in keys if key not in GPU_KEYS)


def revision(facts: Mapping[str, Any]) -> str:
    """Return torch's version with the first ten digits of its commit, `2.13.0+cpu@0123456789`."""
    version = facts.get("torch_version", "unknown")
    commit = facts.get("torch_git")
    return f"{version}@{str(commit)[:10]}" if commit else str(version)
