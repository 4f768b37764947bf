"""Logits in, a transform out: temperatures fitted to source-validation logits."""
