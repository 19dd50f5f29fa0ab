"""What a variant does to a model before it is compiled: to a copy, so that eager stays as it was.

Eager is what every variant is compared with, in speed and in accuracy, so a treatment that changes
weights, inputs or the optimizer works on a copy of the subject.
"""

from __future__ import annotations

import copy
import dataclasses

import torch

from models_zoo.spec import UNTREATED, Treatment
from runner.measure.subject import Subject, optimizer_of

_IMAGE_DIMENSIONS = 4


class CannotTreatError(RuntimeError):
    """This model cannot be treated so, here; the message says why and what to do."""


def treat(subject: Subject, *, treatment: Treatment) -> Subject | None:
    """Return the treated copy of `subject`, None where nothing is done to it.

    Raises CannotTreatError where the treatment has nothing to act on.
    """
    if treatment == UNTREATED:
        return None
    treated = _copy(subject)
    if treatment.memory_format == "channels_last":
        _to_channels_last(treated)
    treated.optimizer = optimizer_of(treated.model, phase=treated.phase)
    return treated


def _copy(subject: Subject) -> Subject:
    return dataclasses.replace(
        subject,
        model=copy.deepcopy(subject.model),
        inputs=dict(subject.inputs),
        scaler=copy.deepcopy(subject.scaler),
    )


def _to_channels_last(subject: Subject) -> None:
    images = {
        name: tensor.contiguous(memory_format=torch.channels_last)
        for name, tensor in subject.inputs.items()
        if tensor.dim() == _IMAGE_DIMENSIONS and tensor.is_floating_point()
    }
    if not images:
        raise CannotTreatError(
            "channels_last is a layout of images and this model has no input of four dimensions:"
            " measure it under default"
        )
    subject.inputs.update(images)
    # A module's `to` returns itself; weights of other dimensions stay as they are.
    subject.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
