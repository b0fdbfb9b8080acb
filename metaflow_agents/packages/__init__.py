"""Python packages for a run's commands: resolved by pip, locked by hash, unpacked into environments; nothing of them is run."""
