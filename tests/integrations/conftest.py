"""Before anything imports Keras: it computes with torch."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")
