"""Readers of what people have: tables, saved predictions, DomainBed's and SWAD's logs."""

from checkwise.integrations.advice import missing_advice
from checkwise.integrations.load import load, load_runs

__all__ = ["load", "load_runs", "missing_advice"]
