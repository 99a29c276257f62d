"""Every error that simile raises on purpose, and what none of their messages holds: the secrets of URLs."""

from __future__ import annotations

import re

LEFT_OUT = "***"  # what stands in texts for what is secret
_WITHOUT_USER = ("abfs", "abfss")  # what stands before their @ is a container
# Where ? and # are a part of names; anywhere else, and where a value follows, they begin what may be a signature.
_STORES = ("s3", "s3a", "gs", "gcs", "az", "hdfs", "sftp", "memory", "file", "local", *_WITHOUT_USER)
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+"
_NEXT = rf"(?![\s,;'\"(\[]{_SCHEME}://|::{_SCHEME}://)"  # no other URL begins here
# A password may hold anything, so it ends at the last @ before the next URL. pathlib makes one slash of two.
_IN_TEXTS = re.compile(
    rf"""((?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/{{1,2}})
    (?P<user>{re.escape(LEFT_OUT)}@|(?:[^/?\#:]*|[^\s:'"]*(?=:\S)):(?!:{_SCHEME}://)(?:{_NEXT}.)*@|[^\s/?\#:'"]*@)?
    (?P<path>(?:{_NEXT}[^\s?\#])*)
    (?P<query>[?\#]\S*[^\s'",:;)\]}}>])?""",
    re.VERBOSE | re.DOTALL,
)


def redact(text: str) -> str:
    """Leave passwords and queries, which may be signatures, out of whatever looks like a URL in a text.

    >>> redact("https://me:secret@host/a.csv?sig=abc, s3://key:secret@bucket/run?.csv, abfs://box@account/a.csv")
    'https://***@host/a.csv?***, s3://***@bucket/run?.csv, abfs://box@account/a.csv'
    >>> redact("simplecache::https://me:a/se cret@host/a.csv")
    'simplecache::https://***@host/a.csv'
    """
    return _IN_TEXTS.sub(_redact_url, text)


def _redact_url(found: re.Match[str]) -> str:
    scheme, user, path, query = (part or "" for part in found.group("scheme", "user", "path", "query"))
    if re.search(r"[?#]", user):  # of a password, or of a query with an @ in it
        return f"{found[1]}{LEFT_OUT}"
    if user and (":" in user or scheme.lower() not in _WITHOUT_USER):
        user = f"{LEFT_OUT}@"
    if query and ((len(scheme) > 1 and scheme.lower() not in _STORES) or re.search(r"[?#][^/?#]*=", query)):
        query = f"{query[0]}{LEFT_OUT}"
    return f"{found[1]}{user}{path}{query}"


class SimileError(Exception):
    """Base of every error below: `except simile.SimileError` catches them all."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(redact(arg) if isinstance(arg, str) else arg for arg in args))


class ArgumentError(SimileError, ValueError):
    """An argument cannot be used; the message names it, its value and the way out."""


class DataError(SimileError, ValueError):
    """The demonstrations cannot be used; the message names the place, the value and the way out."""


class DivergedError(SimileError, ArithmeticError):
    """A roll-out left every reasonable range; the message says where, and `stream` which of many online."""

    stream: int | None = None


class StorageError(SimileError, ValueError):
    """A file cannot be used as a policy, or a policy not be written; the message names the file and what is wrong."""
