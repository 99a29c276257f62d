"""Attacks on `simile`, each held or broken: what `benchmarks/attack.py` tries one after the other."""
