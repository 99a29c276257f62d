"""Send many columns through the filter of a closed loop."""

from __future__ import annotations

from simile.models.kernels.compiling import kernel


@kernel
def filter_frames(gain, taps, Z, past, out):
    """Write gain z_t - taps_1 out_{t-1} - ... to `out`, frame by frame, for the columns of Z (n, columns).

    `past` (order + 1, columns), whose last row is zero, is the state of the filter (direct form II transposed: the bits
    of scipy.signal.lfilter), and is brought up to date.
    """
    columns = Z.shape[1]
    for t in range(len(Z)):
        for j in range(columns):
            out[t, j] = past[0, j] + gain * Z[t, j]
        for i in range(len(taps)):
            for j in range(columns):
                past[i, j] = past[i + 1, j] - out[t, j] * taps[i]


@kernel
def roll_sequences(gain, taps, starts, expert, Z, out):
    """Write the roll-outs for the columns of Z (frames, columns) to `out`, each from the expert's first actions.

    In frame t it is gain z_t - taps_1 out_{t-1} - ...; `starts` (sequences + 1,) tells where each sequence begins.
    """
    columns, order = Z.shape[1], len(taps)
    for s in range(len(starts) - 1):
        for t in range(starts[s], starts[s + 1]):
            given = t - starts[s] < order
            for j in range(columns):
                out[t, j] = expert[t] if given else gain * Z[t, j]
            if not given:
                for i in range(order):
                    for j in range(columns):
                        out[t, j] -= taps[i] * out[t - 1 - i, j]
