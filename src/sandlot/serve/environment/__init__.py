"""Offers an environment over MCP and HTTP."""
