"""The errors of the catalog: a name that does not exist, and a model that cannot be built here."""

from __future__ import annotations

from typing import ClassVar


class UnknownNameError(LookupError):
    """A model, variant, shape or suite name that does not exist; the message suggests near ones.

    `code` and `parameters` are those of `compile_hud.db.errors.CodedError`, which the catalog does
    not import.
    """

    code: ClassVar[str] = "unknown-name"

    def __init__(self, message: str, /, **parameters: object) -> None:
        super().__init__(message)
        self.parameters = parameters


class UnavailableModelError(ImportError):
    """This interpreter lacks a requirement of the model; the message says how to install it."""
