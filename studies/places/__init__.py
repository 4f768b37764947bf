"""Ninety-six unseen places in five public tables: what the product does by default, registered."""
