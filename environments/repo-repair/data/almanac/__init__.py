"""Days, months and moments."""
