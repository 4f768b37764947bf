"""Readers of what people have: tables, saved predictions, DomainBed's and SWAD's logs."""

from checkwise.readers.loading import load, load_runs

__all__ = ["load", "load_runs"]
