"""Errors have a code and the parameters of their message."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

from compile_hud.db.errors import CodedError, RecordError, StoreLocked
from compile_hud.runner.errors import ConfigError, RunInterrupted


def subclasses(cls: type[CodedError]) -> Iterator[type[CodedError]]:
    for child in cls.__subclasses__():
        yield child
        yield from subclasses(child)


def test_the_code_is_the_class_in_kebab_case() -> None:
    assert (StoreLocked.code, ConfigError.code) == ("store-locked", "config")
    assert RunInterrupted("stopped").code == "run-interrupted"


def test_no_two_errors_share_a_code() -> None:
    classes = set(subclasses(CodedError))
    assert len({cls.code for cls in classes}) == len(classes)


def test_parameters_survive_another_process() -> None:
    error = pickle.loads(pickle.dumps(RecordError("field 'x' is missing", field="x")))  # noqa: S301
    assert str(error) == "field 'x' is missing"
    assert (error.code, error.parameters) == ("record", {"field": "x"})
