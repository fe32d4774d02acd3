"""Renderers: messages to token ids and back, one per model family, tested against the model before the first rollout.

Read `family.py` first. A history is rendered once; after that `bridge` appends to it.
"""
