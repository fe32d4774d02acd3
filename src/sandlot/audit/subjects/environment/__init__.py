"""Sandlot environments as subjects of an audit, in worker processes."""
