"""Files behind URLs (s3://, gs://, abfs://, hdfs://, https:// and what else fsspec knows), read as if they lay here.

A URL may carry secrets: a password, or the signature in a query. No text that is made here holds them; see `redact`.
"""

from __future__ import annotations

import importlib
import io
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from simile._common.needs import need
from simile.errors import LEFT_OUT, ArgumentError, DataError, SimileError, redact

# What a protocol needs beside fsspec, and where its credentials come from.
LIBRARIES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "adlfs"),
    **dict.fromkeys(("http", "https"), "aiohttp"),
    "hdfs": "pyarrow",
}
KNOWN = "file, s3, gs, abfs, hdfs, https, memory"
_CREDENTIALS = {
    "s3fs": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or ~/.aws",
    "gcsfs": "GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`",
    "adlfs": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "aiohttp": "https://user:password@host/...",
}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_BLOCK = 1 << 22  # bytes that are fetched at a time
# What a server or store says of a file, and is another where the file is.
_VERSION = ("size", "ETag", "etag", "Last-Modified", "LastModified", "last_modified", "mtime", "created")
_CONNECT, _READ = 5.0, 30.0  # seconds of patience


def is_url(path: object) -> bool:
    """Tell whether a path is a URL, as s3://bucket/games.parquet."""
    return isinstance(path, str) and _URL.match(path) is not None


def locate(path: str | File, *, limit: int = 1 << 62) -> File:
    """Return where a path or URL points to: a path on this machine (file:// too), or elsewhere."""
    if not isinstance(path, str):
        return path
    url = path.strip()
    if "::" in url and _URL.search(url):
        raise ArgumentError(f"path: {url} is a URL within a URL (::): fetch the file first, and unpack it")
    if (found := _URL.match(url)) is None:
        return Path(path)
    protocol, behind = found[1].lower(), url[found.end() :]
    if protocol in ("file", "local"):
        there = urlsplit(url)
        return Path(url2pathname(f"//{there.netloc}{there.path}" if there.netloc else there.path))
    host = re.split(r"[/?#]", behind, maxsplit=1)[0]
    if ":" in host and "@" in behind[len(host) :]:
        raise ArgumentError(
            "path: it cannot be told where the password ends: write / as %2F, ? as %3F and # as %23 there, and behind "
            f"the host @ as %40; got {url}"
        )
    if LEFT_OUT in url and redact(url) == url:
        raise ArgumentError(f"path: {url} was kept without its secrets ({LEFT_OUT}): give the URL in full again")
    fs, place = _connect(url := f"{protocol}://{behind}")
    fs.invalidate_cache()  # what has been listed once may have changed
    return Url(url, place, limit)


def refuse_url(path: object, what: str, way_out: str, error: type[SimileError] = ArgumentError) -> None:
    """Refuse a URL where only a path of this machine will do."""
    text = str(path).replace("\\", "/")
    if found := re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?=\S)", text):  # pathlib makes one slash of two
        slashes = "///" if found[1] == "file" else "//"
        shown = text if is_url(text) else f"{found[1]}:{slashes}{text[found.end() :]}"
        raise error(f"{what}: {shown} is a URL: {way_out}")


def name_of(path: str | File) -> str:
    """Return the last part of a path or URL, without secrets.

    >>> name_of("https://host/games.csv?sig=abc"), name_of("runs/a.csv")
    ('games.csv', 'a.csv')
    """
    if is_url(path):
        return PurePosixPath(redact(str(path)).removesuffix(f"?{LEFT_OUT}")).name
    return Path(path).name if isinstance(path, str) else path.name


@dataclass(frozen=True, order=True)
class Url:
    """A file or folder that is not on this machine, with as much of `pathlib.Path` as reading takes; see `locate`.

    Parameters
    ----------
    given : str
        The URL that tells how to get there, secrets included.
    path : str
        In that file system.
    limit : int
        Bytes to fetch of a file that is taken as a whole, at most.
    found : str
        What a list of files has said it is: "file", or nothing yet.
    versions : dict
        Which version of each file was opened first, by its path: of one reading, all must be that one.
    """

    given: str = field(repr=False)
    path: str = field(repr=False)
    limit: int = field(default=1 << 62, repr=False, compare=False)
    found: str = field(default="", repr=False, compare=False)
    versions: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        fs, own = _connect(self.given)
        return redact(self.given.rstrip("/") if self.path == own else str(fs.unstrip_protocol(self.path)))

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    @property
    def is_web(self) -> bool:
        """Whether it is on a web server, which lists no files."""
        return self.given.startswith(("http://", "https://"))

    @cached_property
    def pure(self) -> PurePosixPath:
        """The place as a path: bucket and key, or host and path."""
        text = re.split(r"[?#]", self.path)[0] if self.is_web else self.path
        return PurePosixPath(re.sub(r"^[\w+.-]+://(?:[^/]*@)?", "", text))

    @property
    def name(self) -> str:
        """The last part."""
        return self.pure.name

    @property
    def suffix(self) -> str:
        """What stands behind the last dot of the name."""
        return self.pure.suffix

    @cached_property
    def kind(self) -> str:
        """Whether it is a "file" or a "directory"; DataError where there is nothing."""
        if self.found:
            return self.found
        if self.is_web and self.given.partition("?")[0].endswith("/"):
            return "directory"
        with _reaching(self):
            return str(_connect(self.given)[0].info(self.path)["type"])

    def __truediv__(self, name: str) -> Url:
        return replace(self, path=f"{self.path.rstrip('/')}/{name}", found="")

    def resolve(self) -> Url:
        """Return itself: a URL is whole."""
        return self

    def is_file(self) -> bool:
        """Tell whether there is such a file."""
        try:
            return self.kind == "file"
        except DataError:
            return False

    def glob(self) -> list[Url]:
        """Return the files that match a pattern."""
        return self._list("a pattern", lambda fs: fs.glob(self.path, detail=True))

    def rglob(self, pattern: str) -> list[Url]:
        """Return the files of a folder, and of those below it, whose names match a pattern."""
        found = self._list("a folder", lambda fs: fs.find(self.path, detail=True))
        return [file for file in found if file.pure.match(pattern)]

    def _list(self, what: str, find: Any) -> list[Url]:
        if self.is_web:
            raise ArgumentError(f"path: {self} is {what}, and a web server has no list of its files: name each file")
        with _reaching(self):
            found = find(_connect(self.given)[0])
        return [replace(self, path=str(path), found="file") for path, about in found.items() if about["type"] == "file"]

    def has_magic(self) -> bool:
        """Tell whether it is a pattern; in the address of a web page a question mark is none."""
        return bool(re.search(r"[*[]" if self.is_web else r"[*?[]", str(self.pure)))

    def open(self, *, seekable: bool = False, ahead: bool = True) -> BinaryIO:
        """Open the file to read, in order or, where it must be `seekable`, here and there.

        Without `ahead`, what is asked for is fetched and no more: for those who ask for large pieces.
        """
        fs = _connect(self.given)[0]
        with _reaching(self):
            fs.invalidate_cache(self.path)
            about = fs.info(self.path)
            version = tuple(str(about.get(name)) for name in _VERSION)
            if self.versions.setdefault(self.path, version) != version:
                raise DataError(f"{self}: it was replaced while it was read: read it again, when nobody writes to it")
            if self.is_web and seekable and not about.get("size"):
                raw = self._fetch(fs)
            else:
                in_order = self.is_web and not seekable
                how = {"block_size": 0 if in_order else _BLOCK, "cache_type": "readahead" if ahead else "none"}
                raw = fs.open(self.path, "rb", **how)
            if self.is_web and seekable:
                try:
                    raw.seek(-1, 2)
                    raw.read(1)
                    raw.seek(0)
                except ValueError:  # a server that sends files as a whole or not at all
                    raw = self._fetch(fs)
        stream = _Stream(raw, self)
        return io.BufferedReader(stream, 1 << 20) if ahead else stream  # type: ignore[return-value]

    def _fetch(self, fs: Any) -> BinaryIO:
        """Bring a file here, as far as the limit allows."""
        from simile._common.text import size  # and numpy, which `simile --help` does without

        with ExitStack() as stack, fs.open(self.path, "rb", block_size=0) as file:
            kept = stack.enter_context(tempfile.TemporaryFile())
            while some := file.read(_BLOCK):
                kept.write(some)
                if kept.tell() > self.limit:
                    raise DataError(
                        f"{self}: it has more than {size(self.limit)}, and its server sends it as a whole or not at "
                        "all: allow more, in MB, by max_memory (--max-memory), or fetch it first"
                    )
            kept.seek(0)
            stack.pop_all()  # it stays open
        return kept


File = Path | Url


def pure(path: File) -> PurePath:
    """Return a path to name things by."""
    return path.pure if isinstance(path, Url) else path


def open_file(path: File, *, seekable: bool = False) -> BinaryIO:
    """Open a file to read its bytes."""
    return path.open(seekable=seekable) if isinstance(path, Url) else path.open("rb")


def opened(path: File, *, ahead: bool = True) -> AbstractContextManager[Any]:
    """Return what a library that reads files takes, for `with`: the path of this machine, or an open file."""
    return nullcontext(path) if isinstance(path, Path) else path.open(seekable=True, ahead=ahead)


class _Stream(io.RawIOBase):
    """A file elsewhere; what goes wrong on the way is said by the URL."""

    def __init__(self, raw: Any, url: Url) -> None:
        self.raw, self.url = raw, url

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self.raw.seekable())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self.raw.seek(offset, whence))

    def tell(self) -> int:
        return int(self.raw.tell())

    def readinto(self, buffer: Any) -> int:
        with _reaching(self.url):
            data = self.raw.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self.raw.close()
        super().close()


def _connect(given: str) -> tuple[Any, str]:
    """Return the file system behind a URL, the same one for the same URL, and the path in it."""
    protocol = given.partition(":")[0].lower()
    shown = redact(given)
    fsspec = need("fsspec", f"reading {shown}")
    if library := LIBRARIES.get(protocol):
        need(library, f"reading {shown}")
    options: dict[str, Any] = {}
    if library == "s3fs":
        # Nobody waits for minutes of retries of a server that is down; one that wants it slower is asked again anyway.
        own = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})
        options["config_kwargs"] = {"retries": {"total_max_attempts": 2, "mode": "standard"}, **own}
    elif library == "aiohttp":
        waits = importlib.import_module("aiohttp").ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_READ)
        options["client_kwargs"] = {"timeout": waits}
    with _reaching(given):
        try:
            fs, path = fsspec.core.url_to_fs(given, **options)
        except ImportError as error:
            raise ArgumentError(f"path: {shown} cannot be read here: {_explain(error, given)}") from None
        except ValueError as error:
            if "rotocol" not in str(error):
                raise
            raise ArgumentError(f"path: the protocol of {shown} is not known: use one of {KNOWN}") from None
    if library == "s3fs":
        fs.retries = 2  # of a request whose answer breaks off, or does not come within a quarter of a minute
    return fs, str(path)


@contextmanager
def _reaching(url: str | Url) -> Iterator[None]:
    """Turn whatever a file system raises into a sentence that names the URL."""
    try:
        yield
    except (SimileError, MemoryError):
        raise
    except Exception as raised:
        given, shown = url if isinstance(url, str) else url.given, redact(str(url))
        library = LIBRARIES.get(given.partition(":")[0].lower(), "")
        error: BaseException = raised
        if library == "aiohttp" and isinstance(raised, FileNotFoundError) and raised.__cause__ is not None:
            error = raised.__cause__  # which says what has happened; that the file is not there was a guess
        status = getattr(error, "status", 0)
        if isinstance(error, FileNotFoundError) or status in (404, 410):
            bucket = "" if library in ("", "aiohttp", "pyarrow") else ", or no such bucket"
            raise DataError(f"{shown}: there is no such file{bucket}") from None
        denied = isinstance(error, PermissionError) or status in (401, 403)
        if denied or "Credentials" in type(error).__name__:
            said = "permission denied to these credentials, or to none" if denied else "there are no credentials for it"
            way_out = f": give them by {_CREDENTIALS[library]}" if library in _CREDENTIALS else ""
            raise DataError(f"{shown}: {said}{way_out}") from None
        reason = _explain(error, given)
        raise DataError(f"{shown}: it cannot be reached: {reason}: is the address right, and the server up?") from None


def _explain(error: BaseException, given: str) -> str:
    """Return the first line of what a library says, unless it holds a part of the secrets of a URL."""
    reason = redact((str(error).splitlines() or [""])[0])
    words, shown, said = (set(re.findall(r"\w+", unquote(t).casefold())) for t in (given, redact(given), reason))
    if not reason or (words - shown) & said:
        return type(error).__name__
    return reason if len(reason) <= 160 else f"{reason[:150]}..."
