"""The web UI: a server on this machine that shows runs and does what the command line does. Every page is a view of journals."""
