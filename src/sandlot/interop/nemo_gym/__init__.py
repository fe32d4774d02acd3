"""Tasks of NeMo Gym: a resources server, its rows, its tools and its verification."""
