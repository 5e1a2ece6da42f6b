"""Approximate inference in discrete probabilistic graphical models."""

__version__ = "0.1.0"
