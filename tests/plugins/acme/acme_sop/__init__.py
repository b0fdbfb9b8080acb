"""What Acme adds to metaflow-agents. Nothing is imported before a SOP or a person names it."""
