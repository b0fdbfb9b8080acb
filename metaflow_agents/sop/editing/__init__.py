"""Edits of a SOP's text by what they mean: a step renamed, an artifact connected, a role set. Every other byte stays."""
