"""Observing a run: typed events and the sinks that receive them, the figures of progress lines, event-loop lag, reports.

Read `events.py` first; `event_log.py` stores events and reads them back; `prometheus.py` counts them as metrics and `otel.py`
sends them as spans. Nothing here prints or changes what a rollout does.
"""
