"""Tools: what the agent may call, always in MCP shape.

Read `function.py` first (a typed Python function becomes a tool), then `schema.py` (its schema), `arguments.py` (what a call may
carry) and `mcp.py` (any MCP server becomes an environment's tools for as long as its world lives).
"""
