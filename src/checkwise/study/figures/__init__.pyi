__all__: list[str]

from checkwise.study.figures.trajectory import median_run as median_run
from checkwise.study.figures.write import FIGURES as FIGURES
from checkwise.study.figures.write import write_figures as write_figures
