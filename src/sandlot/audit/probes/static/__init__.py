"""Probes that read code, tasks, data and tool schemas without running anything."""
