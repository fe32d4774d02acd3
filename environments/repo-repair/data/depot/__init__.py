"""Keeping things, and handing them out."""
