"""Algorithm 1, the choices it leaves open, and the cross-fitted default."""
