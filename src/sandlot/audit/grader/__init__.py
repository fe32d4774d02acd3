"""Flaws of graders, asked directly: answers and evidence that were never played."""
