"""What programs call, and the command line stands on: run, resume, fork, SOP tests, preview, scaffold, demo, MCP server."""
