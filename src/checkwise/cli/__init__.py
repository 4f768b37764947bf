"""The command line: parse, call, print."""

from checkwise.cli.main import app, main

__all__ = ["app", "main"]
