"""Every error that simile raises on purpose."""

from __future__ import annotations


class SimileError(Exception):
    """Base of every error below: `except simile.SimileError` catches them all."""


class ArgumentError(SimileError, ValueError):
    """An argument cannot be used; the message names it, its value and the way out."""


class DataError(SimileError, ValueError):
    """The demonstrations cannot be used; the message names the place, the value and the way out."""


class DivergedError(SimileError, ArithmeticError):
    """A roll-out left every reasonable range; the message says where, and `stream` which of many online."""

    stream: int | None = None


class StorageError(SimileError, ValueError):
    """A file cannot be used as a policy, or a policy not be written; the message names the file and what is wrong."""
