"""Simulated games: players, detectors and a human operator."""
