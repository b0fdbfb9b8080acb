"""A run's append-only log in one SQLite file, and the pure fold of its events into the run's state."""
