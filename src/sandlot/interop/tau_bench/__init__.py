"""Tasks of tau-bench: customers of a shop and an airline, whom a model plays."""
