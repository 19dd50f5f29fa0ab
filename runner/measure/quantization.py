"""8-bit weights of linear layers by torchao; activations stay unchanged.

Each row of a weight has its own scale. torchao converts the weights back to the dtype of the case
before it multiplies, so the gain is memory traffic and not arithmetic.
"""

from __future__ import annotations

import torch
from torch import nn

from compile_hud.db.shared.text import counted_of
from compile_hud.models_zoo.building.packages import import_provider
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.subject import Subject

# The first generation of GPUs with 8-bit floats.
_FLOAT8_CAPABILITY = (8, 9)
_MAX_NAMES = 3
_CONFIGURATIONS = {"int8": "Int8WeightOnlyConfig", "float8": "Float8WeightOnlyConfig"}


def not_quantizable_reason(subject: Subject, *, weights: str) -> str:
    """Return the reason why the linear layers of `subject` cannot use `weights`, or empty."""
    if not any(_takes(module, weights=weights) for module in subject.model.modules()):
        return (
            "this model has no linear layer whose weights could be quantized: measure it under"
            " default"
        )
    if weights == "float8" and subject.device.is_cuda:
        capability = torch.cuda.get_device_capability()
        if capability < _FLOAT8_CAPABILITY:
            return (
                f"8-bit floats need compute capability 8.9 (Ada, Hopper), this device has"
                f" {capability[0]}.{capability[1]}: measure int8-weight-only"
            )
    return ""


def quantize(subject: Subject, *, weights: str) -> None:
    """Quantize the linear layers of `subject`; raise UnavailableModelError without torchao."""
    torchao = import_provider("torchao.quantization")
    configuration = getattr(torchao, _CONFIGURATIONS[weights])()

    def takes(module: nn.Module, _name: str) -> bool:
        return _takes(module, weights=weights)

    torchao.quantize_(subject.model, configuration, filter_fn=takes)


def report_quantized(context: Context) -> None:
    """Record the number of quantized linear layers, and warn of those that stay unchanged."""
    weights = context.request.workload.transform.weights
    plain = [
        name
        for name, module in context.subject.model.named_modules()
        if isinstance(module, nn.Linear) and not _takes(module, weights=weights)
    ]
    linear = [item for item in context.subject.model.modules() if isinstance(item, nn.Linear)]
    context.findings.details["quantized"] = {
        "weights": weights,
        "num_layers": len(linear) - len(plain),
        "left": plain,
    }
    if plain:
        context.findings.warn(
            "not-quantized",
            f"{counted_of(len(plain), len(linear), 'linear layer')} stay in the dtype of the case:"
            f" {', '.join(plain[:_MAX_NAMES])}",
            hint="a row of zeros has the scale 0 in torchao, and its 8-bit floats would be NaN",
        )


def _takes(module: nn.Module, *, weights: str) -> bool:
    if not isinstance(module, nn.Linear):
        return False
    # A row of zeros must stay in floating point: torchao 0.18 gives it the scale 0 and divides by
    # it. The padding row of an embedding is such a row, and a tied last layer has it too.
    return weights != "float8" or bool(module.weight.detach().abs().amax(dim=1).gt(0).all())
