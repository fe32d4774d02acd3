"""Mail, with the tools of the public Gmail server. Read `tools.py` first, then `mailbox.py` (what sending and filing do)."""
