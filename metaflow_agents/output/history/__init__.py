"""The run's git repository: a fold of its journal, one commit for every commit of an artifact, written when the run rests."""
