"""Keeps a small shop's takings in a text file."""

__version__ = "0.4.2"
