"""Free-D packets, as tracking systems read them."""

from __future__ import annotations

import math
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile.camera.heads import FreeD, FreeDSender
from simile.camera.heads.freed import checksum
from simile.errors import ArgumentError, DataError
from visca_emulator import deaf_port

# Free-D

ANGLES = st.floats(-255.9999, 255.9999)
LENGTHS = st.floats(-131071.9, 131071.9)
BITS = st.integers(0, (1 << 24) - 1)


@given(ANGLES, ANGLES, ANGLES, LENGTHS, LENGTHS, LENGTHS, BITS, BITS, st.integers(0, 65535), st.integers(0, 255))
def test_free_d_survives_within_one_unit(pan, tilt, roll, x, y, z, zoom, focus, user, camera):
    sent = FreeD(pan, tilt, roll, x, y, z, zoom, focus, user, camera)
    packet = sent.encode()
    got = FreeD.decode(packet)
    assert len(packet) == 29
    assert sum(packet) % 256 == 0x40
    assert (got.pan, got.tilt, got.roll) == pytest.approx((pan, tilt, roll), abs=1 / 32768)
    assert (got.x, got.y, got.z) == pytest.approx((x, y, z), abs=1 / 64)
    assert (got.zoom, got.focus, got.user, got.camera) == (zoom, focus, user, camera)
    assert got.encode() == packet


def test_free_d_has_the_bytes_of_its_manual():
    for field, value, place, wanted in (
        ("pan", 180.0, 2, "5A 00 00"),
        ("pan", -180.0, 2, "A6 00 00"),
        ("tilt", 1 / 32768, 5, "00 00 01"),
        ("roll", -1 / 32768, 8, "FF FF FF"),
        ("x", -131072.0, 11, "80 00 00"),
        ("z", 131072.0 - 1 / 64, 17, "7F FF FF"),
        ("zoom", 0x123456, 20, "12 34 56"),
        ("focus", 1, 23, "00 00 01"),
        ("user", 0xABCD, 26, "AB CD"),
        ("camera", 255, 1, "FF"),
    ):
        packet = FreeD(**{field: value}).encode()
        wanted = bytes.fromhex(wanted)
        assert packet[0] == 0xD1
        assert packet[place : place + len(wanted)] == wanted
        assert packet[-1] == checksum(packet[:-1])


@given(st.integers(0, 28), st.integers(1, 255))
def test_no_damaged_byte_of_free_d_goes_unnoticed(place: int, flip: int):
    packet = bytearray(FreeD(pan=12.0, zoom=99).encode())
    packet[place] ^= flip
    with pytest.raises(DataError, match=r"checksum must be|only D1"):
        FreeD.decode(bytes(packet))


def test_free_d_refuses_what_does_not_fit():
    for wrong in (
        {"pan": 256.0},
        {"x": -131073.0},
        {"zoom": 1 << 24},
        {"camera": 256},
        {"user": -1},
        {"tilt": math.nan},
    ):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            FreeD(**wrong).encode()
    with pytest.raises(DataError, match="29 bytes; got 28"):
        FreeD.decode(bytes(28))


def test_free_d_arrives_over_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10.0)
        with FreeDSender("127.0.0.1", receiver.getsockname()[1]) as sender:
            sender.send(FreeD(pan=33.5, camera=2))
            assert FreeD.decode(receiver.recv(100)) == FreeD(pan=33.5, camera=2)


def test_free_d_to_nobody_does_not_wait_and_does_not_fail():
    with deaf_port() as port, FreeDSender("127.0.0.1", port) as sender:
        for _ in range(5):
            sender.send(FreeD())
    with pytest.raises(ArgumentError, match="port"):
        FreeDSender("127.0.0.1", 70000)
