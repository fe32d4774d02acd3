"""Formats and trainers of other projects: TRL, verl, exported data sets."""
