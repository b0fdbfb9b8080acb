"""Trades of their own, in this distribution: connected through the plugin door, as anybody's package is; no module of the core
imports one.
"""
