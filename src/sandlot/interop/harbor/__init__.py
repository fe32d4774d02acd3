"""Task folders of Harbor and Terminal-Bench, both ways."""
