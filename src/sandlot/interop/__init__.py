"""Formats and trainers of other projects: importers of tasks, TRL, verl, exported data sets."""
