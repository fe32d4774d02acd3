"""Other people's formats and trainers."""
