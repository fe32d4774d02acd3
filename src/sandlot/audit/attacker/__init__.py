"""A red team that reads: a model, or people, propose plays; the audit runs them and decides by reasons of its own."""
