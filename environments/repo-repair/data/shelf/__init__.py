"""Small things one does to text."""
