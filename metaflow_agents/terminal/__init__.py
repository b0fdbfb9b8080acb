"""The terminal: what is typed there, and all that is printed."""
