"""Questions to people: asked once, journalled, answered at a terminal or days later from another process."""
