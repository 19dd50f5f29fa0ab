"""The graphs of a case that the worker captures for a script of torch alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compile_hud.db.records.codec import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedGraph(JsonRecord):
    """The code of a graph as a method `forward`, and the texts of what it was called with."""

    code: str
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedCase(JsonRecord):
    """The graphs of one iteration of a case, and what torch runs them with.

    `options` is the text of torch.compile's arguments, None for eager code. `autocast` is the text
    of its dtype. `environment` is set before torch is imported. `sdpa` names the SDPBackend of
    compiled code, and is empty for that of torch.
    """

    torch_version: str
    graphs: tuple[CapturedGraph, ...]
    options: str | None
    autocast: str
    num_threads: int
    environment: Mapping[str, str] = field(default_factory=dict)
    sdpa: str = ""
