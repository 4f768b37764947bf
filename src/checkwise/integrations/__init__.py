"""Readers of what people have: tables, saved predictions, DomainBed's and SWAD's logs."""

from checkwise.integrations.reading import load, load_runs

__all__ = ["load", "load_runs"]
