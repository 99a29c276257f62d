"""The hysteresis behind the filter, along whole sequences."""

from __future__ import annotations

from simile.models.kernels.compiling import kernel


@kernel
def hold(actions, width, stepping, begin, out):
    """Let actions (rows, k) pass the hysteresis, one after the other, where `begin` (rows,) does not start anew.

    A row that begins is let through as it is: it is where the output stands. `out` may be `actions`.
    """
    for i in range(len(actions)):
        for j in range(actions.shape[1]):
            a = actions[i, j]
            if begin[i]:
                out[i, j] = a
            elif stepping[j]:
                out[i, j] = a if abs(a - out[i - 1, j]) > width[j] else out[i - 1, j]
            else:
                out[i, j] = min(max(out[i - 1, j], a - width[j]), a + width[j])
