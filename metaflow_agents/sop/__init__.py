"""From YAML files to a checked SOP: reading with positions, finding files, loading, checking, the step graph."""
