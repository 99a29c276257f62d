"""Sums that do not depend on how data are cut, and the backend in this process."""

from __future__ import annotations

import math
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simile._common.sums import ExactSum
from simile.learning.distributed.backend import Backend, LocalBackend

numbers = st.floats(-1e100, 1e100)


@given(arrays(float, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=numbers), st.data())
def test_the_exact_sum_of_parts_is_the_rounded_sum_of_all_in_any_grouping(values, data):
    cut = data.draw(st.integers(0, len(values)))
    order = data.draw(st.permutations(range(len(values))))
    expected = [math.fsum(column) for column in values.T]
    assert ExactSum.of(values).value.tolist() == expected
    shuffled = values[order]
    assert (ExactSum.of(shuffled[:cut]) + ExactSum.of(shuffled[cut:])).value.tolist() == expected


def test_exact_sums_have_the_shape_of_one_value():
    assert ExactSum.of(np.ones((5, 2, 3))).value.tolist() == [[5.0] * 3] * 2
    assert ExactSum.of(np.ones((5, 2, 0, 1))).value.shape == (2, 0, 1)
    assert float(ExactSum.of(np.ones(5)).value) == 5.0
    assert float(ExactSum.of(np.empty(0)).value) == 0.0


@pytest.mark.parametrize("values", [[math.inf, 1.0], [1e308, 1e308, 1e308], [math.inf, -math.inf]])
def test_what_overflows_is_infinite_or_nan_as_any_sum(values):
    with np.errstate(all="ignore"):
        expected = np.sum(values)
    total = float(ExactSum.of(np.array(values)).value)
    assert total == expected or (math.isnan(total) and math.isnan(expected))


def test_the_local_backend_is_a_backend_and_does_what_the_contract_says():
    backend = LocalBackend(parts=2)
    assert isinstance(backend, Backend)
    handles = backend.place([1, 2, 3])
    powers = backend.map(pow, handles, handles, shared=(5,))
    assert backend.collect(powers) == [1, 4, 2]
    assert backend.total(add, powers) == 7
