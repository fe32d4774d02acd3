"""Chat, with the tools of the public Slack server. Read `tools.py` first, then `workspace.py` (messages, who sees what)."""
