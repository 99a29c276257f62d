"""Send many columns through the filter of a closed loop, and see how much they bend."""

from __future__ import annotations

from simile.models.kernels.compiling import kernel


@kernel
def filter_frames(gain, taps, Z, past, out, bends):
    """Write gain z_t - taps_1 out_{t-1} - ... to `out`, frame by frame, for the columns of Z (n, columns).

    `past` (order + 1, columns), whose last row is zero, is the state of the filter (direct form II transposed: the bits
    of scipy.signal.lfilter), and is brought up to date; `bends` receives the second differences of `out`.
    """
    columns = Z.shape[1]
    for t in range(len(Z)):
        for j in range(columns):
            out[t, j] = past[0, j] + gain * Z[t, j]
        for i in range(len(taps)):
            for j in range(columns):
                past[i, j] = past[i + 1, j] - out[t, j] * taps[i]
        if t >= 2:
            for j in range(columns):
                bends[t - 2, j] = (out[t, j] - out[t - 1, j]) - (out[t - 1, j] - out[t - 2, j])
