"""The bytes and operations of an operator from its recorded inputs, and its share of the roofline.

An operation is one addition or one multiplication, so a product of m x k and k x n has 2mkn. Bytes
are each input read once and the output written once: the minimum for any cache. An input that is
expanded over a dimension (stride 0) counts at its size in memory. A value that the shapes do not
determine is None. docs/explanation/kernels.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Values = Sequence[Any]
_UNARY = (
    "abs ceil cos elu erf exp expm1 floor gelu hardsigmoid hardswish hardtanh leaky_relu log log1p"
    " log2 mish neg reciprocal relu round rsqrt sigmoid silu sin softplus sqrt tan tanh"
    " trunc _softmax _log_softmax threshold"
)
_BINARY = (
    "add sub mul div maximum minimum atan2 tanh_backward sigmoid_backward threshold_backward"
    " gelu_backward silu_backward _softmax_backward_data _log_softmax_backward_data"
)
# No memory holds more elements. A larger size is no tensor's, and its products would overflow.
_MAX_ELEMENTS = 2**60
# An operator of torch takes no more dimensions.
_MAX_DIMENSIONS = 64
# The name of a type in c10 (c10/core/ScalarType.h), its name in torch, and the bytes of an element.
DTYPES = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "c10::Half": ("float16", 2),
    "c10::BFloat16": ("bfloat16", 2),
    "c10::Float8_e4m3fn": ("float8_e4m3fn", 1),
    "c10::Float8_e5m2": ("float8_e5m2", 1),
    "c10::Float8_e4m3fnuz": ("float8_e4m3fnuz", 1),
    "c10::Float8_e5m2fnuz": ("float8_e5m2fnuz", 1),
    "long int": ("int64", 8),
    "long": ("int64", 8),
    "int": ("int32", 4),
    "short int": ("int16", 2),
    "short": ("int16", 2),
    "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "bool": ("bool", 1),
    "c10::complex<float>": ("complex64", 8),
    "c10::complex<double>": ("complex128", 16),
}
_LIST = "TensorList"
# The facts of runner/measure/resources/device_peaks.py by the type of the operations.
_PEAKS = {
    "float32": "fp32_flops_per_s",
    "bfloat16": "bf16_flops_per_s",
    "float16": "fp16_flops_per_s",
}
_TF32_PEAK = "tf32_flops_per_s"
_COPY_PEAK = "copy_bytes_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of one call; None for values that the shapes do not determine.

    `dtype` is the type of the operations, empty if unknown. With `is_on_device` the bytes move
    between the device and its own memory.
    """

    num_bytes: float | None = None
    flops: float | None = None
    dtype: str = ""
    is_convolution: bool = False
    is_on_device: bool = True


def work_of(operator: str, *, tensors: Tensors, values: Values) -> Work:
    """Return the work of one call of `operator` with these inputs.

    `values` are the concrete inputs of a convolution, as in the trace.
    """
    name = operator.removesuffix("_") if operator.startswith("aten::") else operator
    rule = _RULES.get(name)
    try:
        return rule(tensors, values) if rule else Work()
    except LookupError:
        return Work()


def _unknown() -> LookupError:
    """Return the error for shapes that do not determine the work."""
    return LookupError("the shapes do not say it")


def _known(tensors: Tensors, index: int, *, rank: int | None = None) -> Tensor:
    tensor = tensors[index]
    if tensor is None or (rank is not None and len(tensor.sizes) != rank):
        raise _unknown()
    return tensor


def _product(left: Tensor, right: Tensor, *others: Tensor) -> Work:
    """Return the work of (batch of) m x k times k x n, with the addends `others`."""
    *batch, m, k = left.sizes
    *right_batch, right_k, n = right.sizes
    if k != right_k or batch != right_batch:
        raise _unknown()
    num_results = math.prod(batch) * m * n
    num_bytes = left.num_bytes + right.num_bytes + num_results * left.element_bytes
    num_bytes += sum(other.num_bytes for other in others)
    return Work(num_bytes=num_bytes, flops=2.0 * num_results * k, dtype=left.dtype)


def _products(left: int, right: int, *added: int, rank: int) -> Callable[[Tensors, Values], Work]:
    """Return the rule of an operator that multiplies two of its inputs and adds others."""

    def rule(tensors: Tensors, values: Values) -> Work:
        del values
        others = [_known(tensors, index) for index in added]
        return _product(
            _known(tensors, left, rank=rank), _known(tensors, right, rank=rank), *others
        )

    return rule


def _vector(left: int, right: int, *added: int) -> Callable[[Tensors, Values], Work]:
    """Return the rule of a matrix-vector product: the vector is a matrix of one column."""

    def rule(tensors: Tensors, values: Values) -> Work:
        del values
        vector = _known(tensors, right, rank=1)
        column = replace(vector, sizes=(*vector.sizes, 1))
        matrix = _known(tensors, left)
        if len(matrix.sizes) == 1:
            matrix = replace(matrix, sizes=(1, *matrix.sizes))
        return _product(matrix, column, *(_known(tensors, index) for index in added))

    return rule


def _linear(weight_index: int) -> Callable[[Tensors, Values], Work]:
    """Return the rule of x (..., k) times the transpose of a weight (n, k), then a bias or none."""

    def rule(tensors: Tensors, values: Values) -> Work:
        del values
        x, weight = _known(tensors, 0), _known(tensors, weight_index, rank=2)
        if not x.sizes or x.sizes[-1] != weight.sizes[1]:
            raise _unknown()
        n, k = weight.sizes
        flat = replace(x, sizes=(math.prod(x.sizes[:-1]), k))
        after = tensors[weight_index + 1 : weight_index + 2]
        bias = [item for item in after if item is not None and item.sizes == (n,)]
        return _product(flat, replace(weight, sizes=(k, n)), *bias)

    return rule


@dataclass(frozen=True, slots=True)
class _ConvolutionPlaces:
    """The indices of a convolution's settings among its inputs."""

    stride: int
    padding: int
    dilation: int
    transposed: int | None


def _convolution(places: _ConvolutionPlaces) -> Callable[[Tensors, Values], Work]:
    """Return the rule of a convolution: 2 operations for each weight and result that meet.

    x is (batch, channels in, ...), the weight (channels out, channels in a group, ...).
    """

    def rule(tensors: Tensors, values: Values) -> Work:
        x, weight = _known(tensors, 0), _known(tensors, 1)
        if places.transposed is not None and values[places.transposed] != "False":
            raise _unknown()
        spatial = _spatial(x, weight, places, values)
        num_results = x.sizes[0] * weight.sizes[0] * math.prod(spatial)
        bias = tensors[2].num_bytes if tensors[2] is not None else 0
        return Work(
            num_bytes=x.num_bytes + weight.num_bytes + bias + num_results * x.element_bytes,
            flops=2.0 * num_results * math.prod(weight.sizes[1:]),
            dtype=x.dtype,
            is_convolution=True,
        )

    return rule


def _spatial(
    x: Tensor, weight: Tensor, places: _ConvolutionPlaces, values: Values
) -> tuple[int, ...]:
    """Return the sizes of the result without batch and channels."""
    num = len(x.sizes) - 2
    if num < 1 or len(weight.sizes) != len(x.sizes):
        raise _unknown()
    stride, padding, dilation = (
        _for_each(values[index], num) for index in (places.stride, places.padding, places.dilation)
    )
    if min(stride) < 1:
        raise _unknown()
    sizes = tuple(
        (size + 2 * pad - step * (window - 1) - 1) // jump + 1
        for size, window, jump, pad, step in zip(
            x.sizes[2:], weight.sizes[2:], stride, padding, dilation, strict=True
        )
    )
    if min(sizes) < 0:
        raise _unknown()
    return sizes


def _for_each(value: Any, num: int) -> tuple[int, ...]:
    numbers = numbers_of(value)
    if numbers is None or len(numbers) not in (1, num):
        raise _unknown()
    return numbers if len(numbers) == num else numbers * num


def _attention(tensors: Tensors, values: Values) -> Work:
    """Return the work of softmax(q k') v: two products; a causal mask reduces nothing.

    q is (batch, heads, queries, e), k (batch, heads, keys, e), v (batch, heads, keys, f). The
    number of heads of k and v equals that of q or divides it.
    """
    del values
    return _attend(*(_known(tensors, index, rank=4) for index in range(3)))


def _attention_by_tokens(tensors: Tensors, values: Values) -> Work:
    """Return the work of an attention whose inputs are (batch, tokens, heads, ...)."""
    del values
    inputs = [_known(tensors, index, rank=4) for index in range(3)]
    return _attend(
        *(
            replace(item, sizes=(a, heads, tokens, e))
            for item in inputs
            for a, tokens, heads, e in [item.sizes]
        )
    )


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Work:
    batch, heads, queries, e = q.sizes
    keys, f = v.sizes[2:]
    is_fit = k.sizes == (batch, v.sizes[1], keys, e) and v.sizes[0] == batch
    if not is_fit or not v.sizes[1] or heads % v.sizes[1]:
        raise _unknown()
    num_results = batch * heads * queries * f
    return Work(
        num_bytes=q.num_bytes + k.num_bytes + v.num_bytes + num_results * q.element_bytes,
        flops=2.0 * batch * heads * queries * keys * (e + f),
        dtype=q.dtype,
    )


def _elementwise(num_inputs: int) -> Callable[[Tensors, Values], Work]:
    """Return the rule of an operator that reads each input once and writes their broadcast."""

    def rule(tensors: Tensors, values: Values) -> Work:
        del values
        inputs = [item for item in tensors[:num_inputs] if item is not None and item.sizes]
        if not inputs or len({item.dtype for item in inputs}) > 1:
            raise _unknown()
        sizes = _broadcast([item.sizes for item in inputs])
        num_bytes = sum(item.num_bytes for item in inputs)
        return Work(num_bytes=num_bytes + math.prod(sizes) * inputs[0].element_bytes)

    return rule


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    sizes = []
    for column in zip(*padded, strict=True):
        different = set(column) - {1}
        if len(different) > 1:
            raise _unknown()
        sizes.append(different.pop() if different else 1)
    return tuple(sizes)


def _norm(tensors: Tensors, values: Values) -> Work:
    """Return the bytes of a norm of the first input, with its weight and bias if it has them."""
    del values
    x = _known(tensors, 0)
    others = [item for item in tensors[1:4] if item is not None and len(item.sizes) == 1]
    read = x.num_bytes + sum(item.num_bytes for item in others)
    return Work(num_bytes=read + x.num_elements * x.element_bytes)


def _copy(tensors: Tensors, values: Values) -> Work:
    """Return the bytes of writing the first input from the second."""
    del values
    return Work(num_bytes=_known(tensors, 0).num_bytes + _known(tensors, 1).num_bytes)


def _fill(tensors: Tensors, values: Values) -> Work:
    del values
    return Work(num_bytes=_known(tensors, 0).num_bytes)


_RULES: dict[str, Callable[[Tensors, Values], Work]] = {
    "aten::mm": _products(0, 1, rank=2),
    "aten::bmm": _products(0, 1, rank=3),
    "aten::addmm": _products(1, 2, 0, rank=2),
    "aten::_addmm_activation": _products(1, 2, 0, rank=2),
    "aten::baddbmm": _products(1, 2, 0, rank=3),
    "aten::mv": _vector(0, 1),
    "aten::addmv": _vector(1, 2, 0),
    "aten::dot": _vector(0, 1),
    "aten::linear": _linear(1),
    "aten::mkldnn_linear": _linear(1),
    "mkldnn::_linear_pointwise": _linear(1),
    # The packed weight has sizes of its own; the one before packing follows it.
    "mkl::_mkl_linear": _linear(2),
    "aten::convolution": _convolution(_ConvolutionPlaces(3, 4, 5, 6)),
    "aten::_convolution": _convolution(_ConvolutionPlaces(3, 4, 5, 6)),
    "aten::cudnn_convolution": _convolution(_ConvolutionPlaces(3, 2, 4, None)),
    "aten::miopen_convolution": _convolution(_ConvolutionPlaces(4, 3, 5, None)),
    "aten::mkldnn_convolution": _convolution(_ConvolutionPlaces(4, 3, 5, None)),
    "mkldnn::_convolution_pointwise": _convolution(_ConvolutionPlaces(4, 3, 5, None)),
    "aten::scaled_dot_product_attention": _attention,
    "aten::_scaled_dot_product_flash_attention": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_efficient_attention": _attention,
    "aten::_scaled_dot_product_cudnn_attention": _attention,
    "aten::_flash_attention_forward": _attention_by_tokens,
    "aten::_efficient_attention_forward": _attention_by_tokens,
    **{f"aten::{name}": _elementwise(1) for name in _UNARY.split()},
    **{f"aten::{name}": _elementwise(2) for name in _BINARY.split()},
    # The bounds may be tensors, or numbers that are not read from memory.
    "aten::clamp": _elementwise(3),
    "aten::addcmul": _elementwise(3),
    "aten::addcdiv": _elementwise(3),
    "aten::native_layer_norm": _norm,
    "aten::copy": _copy,
    "aten::fill": _fill,
    "aten::zero": _fill,
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input that is a tensor: its sizes, the name of its type and the bytes of an element.

    `num_stored` is how many numbers lie in memory where it is spread over a dimension (stride 0).
    """

    sizes: tuple[int, ...]
    dtype: str
    element_bytes: int
    num_stored: int | None = None

    @property
    def num_elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def num_bytes(self) -> int:
        """Return the bytes in memory, also if an operation reads only a part."""
        num = self.num_elements if self.num_stored is None else self.num_stored
        return num * self.element_bytes


Tensors = Sequence[Tensor | None]


def tensors_of(
    dims: Sequence[Any], types: Sequence[Any], strides: Sequence[Any] = ()
) -> tuple[Tensor | None, ...]:
    """Return the inputs in order; None for an input that is no tensor or has an unknown type."""
    tensors = [_tensor(sizes, kind) for sizes, kind in zip(dims, types, strict=False)]
    for index, (tensor, steps) in enumerate(zip(tensors, strides, strict=False)):
        if tensor is not None and isinstance(steps, list) and len(steps) == len(tensor.sizes):
            spread = [size for size, step in zip(tensor.sizes, steps, strict=True) if step != 0]
            num_stored = min(math.prod(spread), tensor.num_elements)
            tensors[index] = replace(tensor, num_stored=num_stored)
    return tuple(tensors)


def spreading(strides: Any) -> list[Any]:
    """Return `strides` if one of them is 0, which means an expanded input; else nothing."""
    if not isinstance(strides, list):
        return []
    return strides if any(isinstance(steps, list) and 0 in steps for steps in strides) else []


def _tensor(sizes: Any, kind: Any) -> Tensor | None:
    known = DTYPES.get(kind) if isinstance(kind, str) else None
    if known is None or not _are_sizes(sizes) or math.prod(sizes) > _MAX_ELEMENTS:
        return None
    return Tensor(tuple(sizes), *known)


def _are_sizes(sizes: Any) -> bool:
    is_short = isinstance(sizes, list) and len(sizes) <= _MAX_DIMENSIONS
    return is_short and all(type(size) is int and size >= 0 for size in sizes)


def shapes_text(dims: Sequence[Any], types: Sequence[Any], values: Sequence[Any]) -> str:
    """Return the tensors among the inputs as text, and the `values` that affect the result."""
    shapes = [_shape(sizes, kind) for sizes, kind in zip(dims, types, strict=False)]
    settings = " ".join(value for value in values if isinstance(value, str) and value)
    text = ", ".join(shape for shape in shapes if shape)
    return f"{text}; {settings}" if text and settings else text


def _shape(sizes: Any, kind: Any) -> str:
    if kind == _LIST and isinstance(sizes, list):
        return "[" + ", ".join("x".join(map(str, size)) for size in sizes if _are_sizes(size)) + "]"
    tensor = _tensor(sizes, kind)
    if tensor is None:
        return ""
    return " ".join([tensor.dtype, "x".join(map(str, tensor.sizes))]).rstrip()


def numbers_of(value: Any) -> tuple[int, ...] | None:
    """Return the whole numbers of a concrete input such as "[1, 2]", None where it has others."""
    if not isinstance(value, str) or not (value.startswith("[") and value.endswith("]")):
        return None
    try:
        return tuple(int(part) for part in value[1:-1].split(",") if part.strip())
    except ValueError:
        return None


def share_of_peak(work: Work, *, mean_s: float, peaks: Mapping[str, float]) -> float | None:
    """Return the share of the measured roofline that a call reaches, None if unknown.

    It is the larger of two shares: the achieved bytes/s of the peak of copies, and the achieved
    FLOP/s of the peak of products in that type.
    """
    if mean_s == 0:
        return None
    shares = []
    copy_peak = _peak(peaks, _COPY_PEAK)
    if work.num_bytes is not None and work.is_on_device and copy_peak:
        shares.append(work.num_bytes / mean_s / copy_peak)
    flops_peak = _peak(peaks, _flops_name(work, peaks))
    if work.flops is not None and flops_peak:
        shares.append(work.flops / mean_s / flops_peak)
    return max(shares, default=None)


def _flops_name(work: Work, peaks: Mapping[str, float]) -> str:
    # By default cuDNN runs fp32 convolutions in TF32.
    if work.is_convolution and work.dtype == "float32" and _peak(peaks, _TF32_PEAK):
        return _TF32_PEAK
    return _PEAKS.get(work.dtype, "")


def _peak(peaks: Mapping[str, float], name: str) -> float | None:
    value = peaks.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and value is not None and 0 < value < math.inf else None
