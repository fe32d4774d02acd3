"""Flaws that can be read: code, tasks, data and tool schemas, without running anything."""
