"""The interfaces between the parts, as Protocols: a part knows these, not other parts.

Implementations do not subclass them. Most have a suite in `sandlot.testing` that every implementation must pass,
third-party ones included. Deadlines are cancel scopes around a call, not arguments.
"""
