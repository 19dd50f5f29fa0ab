"""Single kernels, by hand and by the compiler."""

from __future__ import annotations

from compile_hud.models_zoo.catalog.rows.sizes import sample_size
from compile_hud.models_zoo.catalog.spec import ModelSpec, SweepSpec

_NORM_SIZES = {
    "tiny": sample_size(width=64, batch=4),
    "small": sample_size(width=1024, batch=1024),
    "full": sample_size(width=4096, batch=16384),
}
_SOFTMAX_SIZES = {
    "tiny": sample_size(width=64, batch=4),
    "small": sample_size(width=1000, batch=4096),
    "full": sample_size(width=8192, batch=4096),
}
# The operators have no formula for their gradients.
_PHASES = ("inference",)

_RMS_NORM = ModelSpec(
    name="rms_norm",
    family="kernel",
    build="compile_hud.models_zoo.kernels.rms_norm",
    summary="Five operators that should become one kernel: what a compiler makes of a norm.",
    sizes=_NORM_SIZES,
    phases=_PHASES,
    sweep=SweepSpec(axis="batch"),
)

_TRITON_RMS_NORM = ModelSpec(
    name="triton_rms_norm",
    family="kernel",
    build="compile_hud.models_zoo.kernels.triton_rms_norm",
    summary="The same norm written in Triton: what a compiler leaves of a kernel by hand.",
    sizes=_NORM_SIZES,
    phases=_PHASES,
    sweep=SweepSpec(axis="batch"),
)

_SOFTMAX = ModelSpec(
    name="softmax",
    family="kernel",
    build="compile_hud.models_zoo.kernels.softmax",
    summary="Long rows that are read once or thrice: a reduction within a reduction.",
    sizes=_SOFTMAX_SIZES,
    phases=_PHASES,
    sweep=SweepSpec(axis="batch"),
)

_TRITON_SOFTMAX = ModelSpec(
    name="triton_softmax",
    family="kernel",
    build="compile_hud.models_zoo.kernels.triton_softmax",
    summary="The same rows in one Triton program each, held on the chip from load to store.",
    sizes=_SOFTMAX_SIZES,
    phases=_PHASES,
    sweep=SweepSpec(axis="batch"),
)

ROWS = (
    _RMS_NORM,
    _TRITON_RMS_NORM,
    _SOFTMAX,
    _TRITON_SOFTMAX,
)
