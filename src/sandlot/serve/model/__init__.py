"""Offers a model over an OpenAI-compatible API."""
