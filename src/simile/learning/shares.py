"""How much of something to take on, by what sequences say that it was not learned from."""

from __future__ import annotations

import numpy as np

from simile._common.typing import FloatArray, IntArray

DOUBT = 1 / 3  # standard deviation of a share, between one group of sequences and all others, at which half is believed


def choose_share(pull: FloatArray, power: FloatArray, kin: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the share beta from 0 to 1 for each action, (k,), and by how much the squared error falls with it.

    The error of sequence i falls by beta (2 pull_i - beta power_i), (n, k) each, so that the best share is pull over
    power. It is as good as the number of groups that speak for it (`kin` numbers the group of each sequence): its
    variance, by how much the groups differ, shrinks it towards none, as a prior of `DOUBT` around none does.

    >>> pull, power = np.array([[1.0], [1.0], [1.0]]), np.array([[1.0], [1.0], [1.0]])
    >>> choose_share(pull, power, np.arange(3))[0]
    array([1.])
    >>> choose_share(pull * [[3.0], [0.0], [0.0]], power, np.arange(3))[0].round(2)
    array([0.1])
    """
    pulls, powers = add_kin(pull, kin), add_kin(power, kin)
    n, pull, power = len(pulls), pulls.sum(axis=0), powers.sum(axis=0)
    best = np.divide(pull, power, out=np.zeros_like(pull), where=power > 0.0)
    spread = np.sum((pulls - best * powers) ** 2, axis=0) * n / max(n - 1, 1)
    variance = np.divide(spread, power**2, out=np.zeros_like(pull), where=power > 0.0)
    share = np.clip(best * DOUBT**2 / (DOUBT**2 + variance), 0.0, 1.0)
    return share, share * (2.0 * pull - share * power)


def is_gain(gains: FloatArray, kin: IntArray) -> bool:
    """Tell whether what sequences gain, (n,), is in sum more than its standard error, by how much the groups differ.

    >>> is_gain(np.array([1.0, 2.0, 3.0]), np.arange(3)), is_gain(np.array([9.0, -4.0, -4.0]), np.arange(3))
    (True, False)
    """
    groups = add_kin(gains, kin)
    n = len(groups)
    return bool(groups.sum() > np.sqrt(np.sum((groups - groups.mean()) ** 2) * n / max(n - 1, 1)))


def add_kin(values: FloatArray, kin: IntArray) -> FloatArray:
    """Add up the values (n, ...) of the sequences of each group."""
    out = np.zeros((int(kin.max()) + 1, *values.shape[1:]))
    np.add.at(out, kin, values)
    return out
