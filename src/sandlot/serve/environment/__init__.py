"""Serves an environment over MCP, by stdio or HTTP."""
