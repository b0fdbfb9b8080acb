"""Values only: what a person may write, what travels, what happened. Nothing here does I/O."""
