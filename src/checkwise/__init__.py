"""checkwise picks the training checkpoint whose probabilities you can trust."""
