"""Money in whole cents."""
