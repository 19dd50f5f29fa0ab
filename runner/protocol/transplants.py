"""Kernels of another build that a launch compiles instead of its own.

The runner writes them and the worker reads them, so the module needs only the standard library of
Python 3.10.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compile_hud.db.records.codec import JsonRecord

# The detail of a launch with the transplants that it used.
TRANSPLANTS = "transplants"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTransplant(JsonRecord):
    """One kernel of the build, and the code or the configuration that replaces it.

    `own_source` is the build's code, without blank lines at its ends, and `name` its name.
    `source` is the other code, in which the kernel is called `source_name`. C++ code is compiled
    for the instructions `vector_isa` (Inductor's name, "" for none). With a `config` Triton code
    has this choice instead of what the autotuner takes.
    """

    name: str
    language: str
    own_source: str
    source_name: str
    source: str
    vector_isa: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Return the hash of the code and the configuration that are put in."""
        choice = ",".join(f"{name}={self.config[name]}" for name in sorted(self.config))
        return hashlib.sha256(f"{self.source}\n{choice}".encode()).hexdigest()
