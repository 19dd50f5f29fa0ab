"""The notes of a worker about the kernels of a trace: source code, work and origin, as JSON.

The worker writes them and the runner reads them, so the module needs only the standard library of
Python 3.10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.json_fields import (
    SCHEMA_VERSION,
    check_schema_version,
    get_list,
    get_mapping,
    get_number,
    get_text,
    get_value,
)
from compile_hud.db.records.kernels import Origin

DEVICES = ("cpu", "cuda")
LANGUAGES = ("triton", "cpp")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNote:
    """One generated kernel: its code, its work and its origin.

    `num_bytes` and `flops` are of one call, None if unknown. `dtype` is the type of a matrix
    product's operations, else empty. `arguments` are the JSON values of its first call
    (runner/measure/kernels/generated_code.py), empty if that was not recorded. `spills` is the
    number of register spills of a Triton kernel, None if unknown.
    """

    language: str
    source: str
    num_bytes: float | None = None
    flops: float | None = None
    dtype: str = ""
    origins: tuple[Origin, ...] = ()
    arguments: tuple[Any, ...] = ()
    spills: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the note as a JSON object."""
        return {
            "language": self.language,
            "source": self.source,
            "num_bytes": self.num_bytes,
            "flops": self.flops,
            "dtype": self.dtype,
            "origins": [origin.to_json() for origin in self.origins],
            "arguments": list(self.arguments),
            "spills": self.spills,
        }

    @classmethod
    def from_json(cls, document: Any) -> KernelNote:
        """Return the note that `document` describes; raise RecordError when it does not."""
        language = get_text(document, "language")
        if language not in LANGUAGES:
            allowed = ", ".join(LANGUAGES)
            raise RecordError(
                f"field 'language' is {language!r}; allowed: {allowed}", language=language
            )
        return cls(
            language=language,
            source=get_text(document, "source"),
            num_bytes=_quantity(document, "num_bytes"),
            flops=_quantity(document, "flops"),
            dtype=get_text(document, "dtype", default=""),
            origins=tuple(Origin.from_json(item) for item in get_list(document, "origins")),
            arguments=tuple(get_list(document, "arguments")),
            spills=_quantity(document, "spills"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNotes:
    """The notes of one trace by kernel name; all fields are empty for a trace of another program.

    `num_iterations` is 0 and `device` is empty if unknown. `call_lines` maps the path of a module
    to the user's line, `FILE:LINE`, of its library calls.
    """

    device: str = ""
    num_iterations: int = 0
    kernels: Mapping[str, KernelNote] = field(default_factory=dict)
    call_lines: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the notes as a JSON document."""
        return {
            "schema_version": SCHEMA_VERSION,
            "device": self.device,
            "num_iterations": self.num_iterations,
            "kernels": {name: note.to_json() for name, note in self.kernels.items()},
            "call_lines": dict(self.call_lines),
        }

    @classmethod
    def from_json(cls, document: Any) -> KernelNotes:
        """Return the notes that `document` describes; raise RecordError when it does not."""
        check_schema_version(document)
        device = get_text(document, "device", default="")
        if device not in ("", *DEVICES):
            raise RecordError(
                f"field 'device' is {device!r}; allowed: {', '.join(DEVICES)}", device=device
            )
        num_iterations = get_value(document, "num_iterations", default=0)
        if not isinstance(num_iterations, int) or num_iterations < 0:
            what = "must be a whole number, 0 or more"
            raise RecordError(
                f"field 'num_iterations' {what}, got {num_iterations!r}",
                num_iterations=num_iterations,
            )
        kernels = get_mapping(document, "kernels")
        return cls(
            device=device,
            num_iterations=num_iterations,
            kernels={name: KernelNote.from_json(note) for name, note in kernels.items()},
            call_lines=_texts(document, "call_lines"),
        )


def _texts(document: Any, name: str) -> dict[str, str]:
    if get_value(document, name, default=None) is None:
        # Notes of before these were recorded.
        return {}
    return {key: get_text({key: value}, key) for key, value in get_mapping(document, name).items()}


def _quantity(document: Any, name: str) -> float | None:
    if get_value(document, name, default=None) is None:
        return None
    number = get_number(document, name)
    if not 0 <= number < float("inf"):
        raise RecordError(
            f"field {name!r} must be finite and not negative, got {number!r}",
            name=name,
            number=number,
        )
    return number
