"""Places tasks by difficulty."""
