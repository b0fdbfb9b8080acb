"""Texts from outside: strict JSON, and the words that searches compare."""
