"""Algorithms: pure functions from a problem to a result."""
