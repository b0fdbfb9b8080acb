"""Commands run outside this process: the port, its backends, and what is written and read around a command."""
