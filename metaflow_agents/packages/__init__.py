"""Python packages for a run's commands: resolved by pip, locked by their hashes, unpacked into an environment; nothing of them runs."""
