"""Observing a run: typed events and the sinks that receive them, the figures of progress lines, event-loop lag, reports.

Read `events.py` first; `event_log.py` stores events and reads them back. Nothing here prints or changes what a rollout does.
"""
