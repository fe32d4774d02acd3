"""Harness for foreign agents: they run unmodified, and every model call is captured at an endpoint.

Read `command.py` first (a command-line agent as a harness), then `server.py` (the endpoints) and `history.py` (how a request is
matched with the trace). The OpenAI and Anthropic dialects are in `sandlot.model.wire`.
"""
