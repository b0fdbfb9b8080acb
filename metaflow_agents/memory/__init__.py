"""What a role remembers between its activations."""
