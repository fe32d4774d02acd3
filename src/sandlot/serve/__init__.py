"""Servers for environments and models.

Environments: read `environment/mcp.py` first (an MCP server with one world per connection), then `connection.py` (one client) and
`http.py` (many clients on one port). Models: `model/server.py`, then `routes.py` with `completions.py` and `chat.py`.
"""
