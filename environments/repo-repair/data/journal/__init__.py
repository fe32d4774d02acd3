"""A journal in text files."""
