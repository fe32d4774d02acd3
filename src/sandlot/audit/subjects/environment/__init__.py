"""Audits of Sandlot environments, in worker processes."""
