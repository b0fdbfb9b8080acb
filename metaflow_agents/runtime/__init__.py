"""What carries a run: what refuses it beforehand, its wiring, its handle, its steps, its tools and its sub-workflows."""
