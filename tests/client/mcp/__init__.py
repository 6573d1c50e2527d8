"""The MCP server of the client."""
