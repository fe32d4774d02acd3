"""A calendar, with the tools of the public Google Calendar server. Read `tools.py` first, then `calendars.py` (who sees what)."""
