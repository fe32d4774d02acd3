"""Flaws that show in finished rollouts: of a model, and in what people said about them."""
