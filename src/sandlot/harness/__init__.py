"""Harnesses: loops between a policy and a session. Read `tool_loop.py` first; your own is a class with `name` and `play`."""
