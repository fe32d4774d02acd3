"""Search: plays far from golden that score like it, found by trial and made small."""
