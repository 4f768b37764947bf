"""Logits in, a transform out: temperatures fitted on source-validation logits."""
