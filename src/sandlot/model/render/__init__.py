"""Renderers: messages to token ids and back, one family each, tested against their model before the first rollout.

Read `family.py` first. A renderer never renders history twice: `bridge` appends.
"""
