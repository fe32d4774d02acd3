"""From graded groups to per-token losses."""
