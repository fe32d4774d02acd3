"""Serves a model over an OpenAI-compatible API."""
