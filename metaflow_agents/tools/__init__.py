"""What roles act with: the tool port, built-in tools, Python functions, MCP servers, OpenAPI services."""
