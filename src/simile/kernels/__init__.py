"""Plain functions on arrays, compiled by numba: the only place that imports it."""
