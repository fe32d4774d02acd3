"""The seams between the parts, as Protocols: a part knows these and never its siblings.

Implementations do not subclass them. Every Protocol has one contract suite under `tests/contract/` that every implementation,
third parties' too, must pass. Deadlines are cancel scopes around a call, never arguments.
"""
