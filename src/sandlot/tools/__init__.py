"""Tools: what the agent may call, described as in MCP.

Read `function.py` first (a typed Python function as a tool), then `schema.py` (its JSON Schema), `arguments.py` (checks of a
call's arguments) and `mcp.py` (the tools of an MCP server, for as long as a world is open).
"""
