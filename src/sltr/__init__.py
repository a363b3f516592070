"""Sparse and low-rank regression on tensors."""

__version__ = "0.1.0"

__all__: list[str] = []
