"""Environments as one file: packed with what is known about them, checked before they are unpacked."""
