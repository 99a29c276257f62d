"""Plain functions on arrays, compiled by numba. Numba is imported in files called kernels and in this folder alone."""
