"""The closed loop as a filter on tensors, for roll-outs of many sequences on a device.

A roll-out is a = G z + i (`closed_loop`). By the FFT G costs as much for a long sequence as a few layers do; frame by
frame it costs thousands of small operations.

This module imports torch: import it inside functions alone.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.fft import next_fast_len

from simile._common.typing import FloatArray

DECAYED = 1e-9  # of the impulse response's largest value: what comes after is left out


def impulse_response(taps: FloatArray, length: int) -> FloatArray:
    """Return what G answers to a single one, (at most `length`, k), cut off where it has died away."""
    order, k = len(taps) - 1, taps.shape[1]
    response = np.zeros((length + order, k))  # the first `order` rows are the rest before it
    for t in range(length):
        past = response[t : t + order][::-1]
        response[t + order] = ((t == 0) - (taps[1:] * past).sum(axis=0)) / taps[0]
    response = response[order:]
    alive = np.flatnonzero((np.abs(response) > DECAYED * np.abs(response).max(axis=0)).any(axis=1))
    return response[: int(alive[-1]) + 1]


def filter_signal(z: torch.Tensor, response: torch.Tensor) -> torch.Tensor:
    """Return G z for inputs z (n, T, k), by the FFT; `response` (any, k) answers to a single one."""
    length = z.shape[1]
    response = response[:length]
    size = next_fast_len(length + len(response) - 1, real=True)
    spectrum = torch.fft.rfft(z, size, dim=1) * torch.fft.rfft(response, size, dim=0)
    out: torch.Tensor = torch.fft.irfft(spectrum, size, dim=1)
    return out[:, :length]


def follow(
    z: torch.Tensor,
    taps: torch.Tensor,
    past: torch.Tensor,
    low: torch.Tensor,
    high: torch.Tensor,
    first: torch.Tensor | None = None,
) -> torch.Tensor:
    """Roll z (n, T, k) out after the actions `past` (n, order, k), the latest first, and clip each to the bounds.

    `first` (2, k) are bounds of the first frame.
    """
    out = torch.empty_like(z)
    window = past.transpose(0, 1).contiguous()  # (order, n, k)
    weights = (-taps[1:] / taps[0]).unsqueeze(1)
    forced = (z / taps[0]).transpose(0, 1).contiguous()
    for t in range(z.shape[1]):
        now = torch.clamp(forced[t] + (weights * window).sum(dim=0), low, high)
        now = torch.clamp(now, *first) if t == 0 and first is not None else now
        out[:, t] = now
        window = torch.cat([now.unsqueeze(0), window[:-1]])
    return out
