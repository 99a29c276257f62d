"""Small files that become large when they are unpacked."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable

MAX_MEMORY = "600"  # MB, which is given as --max-memory

ROWS = b"s,0,1.5,2.5\n" * 85_000  # about 1 MB


def make_gzip(megabytes: int) -> bytes:
    """Return a table as CSV that becomes so many MB."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(b"sequence,t,x_ball,a_pan\n")
        for _ in range(megabytes):
            file.write(ROWS)
    return packed.getvalue()


def make_npz(megabytes: int) -> bytes:
    """Return arrays that become so many MB, all zeros."""
    rows = megabytes * 1_000_000 // 16
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("contexts", "actions"):
            text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 1), }}"
            text = text.ljust(117) + "\n"
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
                left, block = 8 * rows, bytes(1 << 20)
                while left > 0:
                    file.write(block[: min(left, 1 << 20)])
                    left -= 1 << 20
    return packed.getvalue()


def make_parquet(megabytes: int) -> bytes:
    """Return a table in Parquet, one value repeated, that becomes so many MB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    packed, n = io.BytesIO(), 1_000_000
    part = pa.table({name: pa.array([1.0] * n) for name in ("x_ball", "a_pan")})
    with pq.ParquetWriter(packed, part.schema, compression="zstd") as writer:
        for _ in range(max(1, megabytes // 16)):
            writer.write_table(part)
    return packed.getvalue()


BOMBS: dict[str, Callable[[int], bytes]] = {
    "bomb.csv.gz": make_gzip,
    "bomb.npz": make_npz,
    "bomb.parquet": make_parquet,
}
