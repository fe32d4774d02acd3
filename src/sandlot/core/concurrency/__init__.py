"""Clocks, deadlines, worker threads and isolated processes."""
