"""Messages that a server must refuse: bytes that mean nothing, and messages that are almost right."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

ODD = (
    *(None, True, -1, 2**63, 2**200, 0.5, "", "x", "\ud7ff\u0000", [], {}, [[]], [None], {"": None}, "a" * 300),
    *([1.0] * 500, {"x": {"x": {}}}, -(2**70), 1e308, "nan", b"\x00\xff"),
)
FIELDS = ("x", "n", "override", "open", "close", "stream", "y", "", "__class__", "start", "deadline")
RIGHT: tuple[dict[str, Any], ...] = (
    {"x": [0.25] * 20, "n": 3},
    {"x": {"player0": 1.0}, "n": 4},
    {"override": [1.0], "n": 5},
    {"open": {"start": [0.0], "deadline": 0.0, "resume": False}},
    {"close": True},
)


def malformed(seed: int) -> Iterator[tuple[bytes, bool]]:
    """Yield messages and whether they are binary, without end; now and then one happens to be right."""
    rng = random.Random(seed)
    while True:
        binary = rng.random() < 0.5
        yield rng.choice((_noise, _cut, _flipped, _odd, _nested, _alien))(rng, binary), binary


def _encoded(message: Any, binary: bool) -> bytes:
    try:
        return msgspec.msgpack.encode(message) if binary else msgspec.json.encode(message)
    except OverflowError:  # msgpack ends at 64 bits
        return msgspec.msgpack.encode(str(message))


def _noise(rng: random.Random, binary: bool) -> bytes:
    data = rng.randbytes(rng.randrange(0, 200))
    return data if binary else data.decode("latin-1").encode()


def _cut(rng: random.Random, binary: bool) -> bytes:
    data = _encoded(rng.choice(RIGHT), binary)
    return data[: rng.randrange(len(data))]


def _flipped(rng: random.Random, binary: bool) -> bytes:
    data = bytearray(_encoded(rng.choice(RIGHT), binary))
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256) if binary else rng.randrange(128)
    return bytes(data)


def _odd(rng: random.Random, binary: bool) -> bytes:
    message = dict(rng.choice(RIGHT))
    for _ in range(rng.randrange(1, 3)):
        message[rng.choice(FIELDS)] = rng.choice(ODD)
    return _encoded(message, binary)


def _nested(rng: random.Random, binary: bool) -> bytes:
    depth = rng.choice((10, 1_000, 20_000))
    if binary:
        return b"\x81\xa1x" + b"\x91" * depth + b"\xc0"
    return b'{"x":' + b"[" * depth + b"]" * depth + b"}"


def _alien(rng: random.Random, binary: bool) -> bytes:
    texts = (
        *(b"", b"null", b"[]", b"NaN", b'{"x":[NaN]}', b'{"x":[1e999],"n":1}', b'{"n":1e3}', b'{"x":[1],"x":[2]}'),
        *(
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xef\xbb\xbf{}",
            b'{"x":[1,]}',
            b"{" * 50,
            b'{"n":"\\ud800"}',
            b"//",
            b"0" * 5000,
        ),
    )
    blobs = (
        b"\xc1",
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xffa",
    )
    return rng.choice(blobs if binary else texts)
