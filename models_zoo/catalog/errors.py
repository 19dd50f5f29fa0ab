"""The errors of the catalog: a name that does not exist, and a model that cannot be built here."""

from __future__ import annotations


class UnknownNameError(LookupError):
    """A model, variant, shape or suite name that does not exist; the message suggests near ones."""


class UnavailableModelError(ImportError):
    """This interpreter lacks a requirement of the model; the message says how to install it."""
