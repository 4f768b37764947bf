"""Figures for papers: facts first, drawing second."""

from checkwise.figures.write import FIGURES, write_figures

__all__ = ["FIGURES", "write_figures"]
