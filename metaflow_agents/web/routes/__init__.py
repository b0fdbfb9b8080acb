"""The routes of the server, a module a topic: each exports `routes`."""
