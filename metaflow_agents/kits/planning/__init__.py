"""Planning problems in PDDL, read and checked, and plans carried out, by code that no planner shares; the solver's command."""
