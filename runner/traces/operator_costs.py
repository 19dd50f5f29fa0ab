"""How many bytes an operator moves and how many operations it does, from its inputs.

An operation is one addition or one multiplication, so that a product of m x k and k x n has 2mkn.
Bytes are each input read once and the output written once: the least that must be moved, whatever
the caches do. An input that is spread over a dimension (stride 0) is read as it lies in memory.
Only what the shapes decide is computed; everything else is None. docs/kernels.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compile_hud.runner.traces._merge_traces_inputs import Tensor, numbers_of

Tensors = Sequence[Tensor | None]
Values = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one call does; None where the shapes do not say it.

    `dtype` is that of the operations, empty where they are not known. `is_on_device` says that the
    bytes are moved between the device and its own memory.
    """

    num_bytes: float | None = None
    flops: float | None = None
    dtype: str = ""
    is_convolution: bool = False
    is_on_device: bool = True


def work_of(operator: str, *, tensors: Tensors, values: Values) -> Work:
    """Return what one call of `operator` with these inputs does.

    `values` are the concrete inputs of a convolution, as the trace has them.
    """
    name = operator.removesuffix("_") if operator.startswith("aten::") else operator
    rule = _RULES.get(name)
    try:
        return rule(tensors, values) if rule else Work()
    except LookupError:
        return Work()


def _unknown() -> LookupError:
    """Return the error that the shapes do not say it, as a missing input does not."""
    return LookupError("the shapes do not say it")


def _known(tensors: Tensors, place: int, *, rank: int | None = None) -> Tensor:
    tensor = tensors[place]
    if tensor is None or (rank is not None and len(tensor.sizes) != rank):
        raise _unknown()
    return tensor


def _product(left: Tensor, right: Tensor, *others: Tensor) -> Work:
    """Return the work of (batch of) m x k times k x n, with what is added to it."""
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
        others = [_known(tensors, place) for place in added]
        return _product(
            _known(tensors, left, rank=rank), _known(tensors, right, rank=rank), *others
        )

    return rule


def _vector(left: int, right: int, *added: int) -> Callable[[Tensors, Values], Work]:
    """Return the rule of a matrix times a vector, which is one of one column."""

    def rule(tensors: Tensors, values: Values) -> Work:
        del values
        vector = _known(tensors, right, rank=1)
        column = replace(vector, sizes=(*vector.sizes, 1))
        matrix = _known(tensors, left)
        if len(matrix.sizes) == 1:
            matrix = replace(matrix, sizes=(1, *matrix.sizes))
        return _product(matrix, column, *(_known(tensors, place) for place in added))

    return rule


def _linear(weight_place: int) -> Callable[[Tensors, Values], Work]:
    """Return the rule of x (..., k) times the transpose of a weight (n, k), then a bias or none."""

    def rule(tensors: Tensors, values: Values) -> Work:
        del values
        x, weight = _known(tensors, 0), _known(tensors, weight_place, rank=2)
        if not x.sizes or x.sizes[-1] != weight.sizes[1]:
            raise _unknown()
        n, k = weight.sizes
        flat = replace(x, sizes=(math.prod(x.sizes[:-1]), k))
        after = tensors[weight_place + 1 : weight_place + 2]
        bias = [item for item in after if item is not None and item.sizes == (n,)]
        return _product(flat, replace(weight, sizes=(k, n)), *bias)

    return rule


@dataclass(frozen=True, slots=True)
class _ConvolutionPlaces:
    """Where a convolution has its settings."""

    stride: int
    padding: int
    dilation: int
    transposed: int | None


def _convolution(places: _ConvolutionPlaces) -> Callable[[Tensors, Values], Work]:
    """Return the rule of a convolution: 2 operations a weight that meets a result.

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
    """Return the sizes of the result beside batch and channels."""
    num = len(x.sizes) - 2
    if num < 1 or len(weight.sizes) != len(x.sizes):
        raise _unknown()
    stride, padding, dilation = (
        _for_each(values[place], num) for place in (places.stride, places.padding, places.dilation)
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
    """Return the work of softmax(q k') v: two products; a causal mask is not taken off.

    q is (batch, heads, queries, e), k (batch, heads, keys, e), v (batch, heads, keys, f), with as
    many heads of k and v or a divisor of them.
    """
    del values
    return _attend(*(_known(tensors, place, rank=4) for place in range(3)))


def _attention_by_tokens(tensors: Tensors, values: Values) -> Work:
    """Return the work of an attention whose inputs are (batch, tokens, heads, ...)."""
    del values
    given = [_known(tensors, place, rank=4) for place in range(3)]
    return _attend(
        *(
            replace(item, sizes=(a, heads, tokens, e))
            for item in given
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
    """Return the bytes of a norm of the first input, with its weight and bias where they are."""
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


_UNARY = (
    "abs ceil cos elu erf exp expm1 floor gelu hardsigmoid hardswish hardtanh leaky_relu log log1p"
    " log2 mish neg reciprocal relu round rsqrt sigmoid silu sin softplus sqrt tan tanh"
    " trunc _softmax _log_softmax threshold"
)
_BINARY = (
    "add sub mul div maximum minimum atan2 tanh_backward sigmoid_backward threshold_backward"
    " gelu_backward silu_backward _softmax_backward_data _log_softmax_backward_data"
)
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
