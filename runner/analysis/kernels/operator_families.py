"""The function of an operator and the inputs of its call, whichever library computes it.

ATen has an operator for a convolution by each library: `aten::cudnn_convolution` on NVIDIA,
`aten::miopen_convolution` on AMD, `aten::mkldnn_convolution` on a CPU. They take the same input and
weight, but only some of them the bias.
"""

from __future__ import annotations

import functools
import re

from compile_hud.runner.analysis.kernels.grouping import Group

# Kinds of which a library has several algorithms, and of which a kernel computes one call only.
PRODUCTS = ("gemm", "convolution")
CONVOLUTION = "convolution"
_LIBRARY = re.compile(r"^(?:cudnn|miopen|mkldnn|onednn|mps|thnn|nnpack|xpu)_+")
# Names from aten/src/ATen/native/native_functions.yaml, without library and underscores.
_FUNCTIONS = (
    (re.compile(r".*conv.*_backward(?:_\w+)?"), "convolution_backward"),
    (re.compile(r"convolution_transpose|slow_conv_transpose[23]d|conv_transpose[123]d"),
     "convolution_transpose"),
    (re.compile(r"(?:depthwise_|spatial_)?convolution(?:_overrideable)?|conv[123]d"
                r"|slow_conv(?:2d_forward|3d|3d_forward|_dilated[23]d)|conv_depthwise[23]d"
                r"|conv2d_forward"),
     CONVOLUTION),
)  # fmt: skip
# "float32 8x4, float32 4" are the inputs of a call as text, "; [1, 1] 1" are its settings.
_SIZES = re.compile(r"\b\d+(?:x\d+)*\b")
_LIST = re.compile(r"\[[^\]]*\]")
# An input of a convolution has a batch, channels and at least one dimension of space.
_MIN_RANK = 3


@functools.lru_cache(maxsize=4096)
def family_of(operator: str) -> str:
    """Return the function that an operator without namespace computes."""
    name = _LIBRARY.sub("", operator)
    return next((family for pattern, family in _FUNCTIONS if pattern.fullmatch(name)), name)


def families_of(group: Group) -> frozenset[str]:
    """Return the functions that the operators of a group compute."""
    return frozenset(map(family_of, group.operators))


def input_sizes(group: Group) -> tuple[tuple[str, ...], ...]:
    """Return the sizes of the inputs in sorted order: libraries take them in another one.

    The bias of a convolution is left out, since some libraries add it in another call.
    """
    tensors = group.first.shapes.partition(";")[0]
    sizes = [tuple(sorted(text.split("x"))) for text in _SIZES.findall(tensors)]
    if any(family.startswith(CONVOLUTION) for family in families_of(group)):
        sizes = [size for size in sizes if len(size) >= _MIN_RANK] or sizes
    return tuple(sorted(sizes))


def list_settings(group: Group) -> tuple[str, ...]:
    """Return the lists among the settings of a call in sorted order, such as strides."""
    return tuple(sorted(_LIST.findall(group.first.shapes.partition(";")[2])))


def has_same_call(one: Group, other: Group) -> bool:
    """Return whether both compute the same function of inputs of the same sizes."""
    return (
        bool(one.first.shapes)
        and bool(other.first.shapes)
        and families_of(one) == families_of(other)
        and input_sizes(one) == input_sizes(other)
    )
