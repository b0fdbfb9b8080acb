"""Hosts that a SOP grants: names read strictly, resolved once and pinned; a client, and a proxy for what runs in the sandbox."""
