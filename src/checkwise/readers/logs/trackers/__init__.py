"""What experiment trackers keep: MLflow, Trackio, W&B, Ray."""
