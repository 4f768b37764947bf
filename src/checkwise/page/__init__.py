"""One self-contained page: the answer in words, then what it rests on."""

from checkwise.page.build import write_report

__all__ = ["write_report"]
