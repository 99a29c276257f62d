"""Serving: a policy as a small real-time service for many streams. `simile serve` is its command."""
