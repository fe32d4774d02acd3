"""Serving: an environment or a model offered to others.

Read `mcp.py` first (an environment as an MCP server, one world for each connection), then `connection.py` (what one client sees)
and `http.py` (how many clients reach one port). For models: `model.py`, then `routes.py` with `completions.py` and `chat.py`.
"""
