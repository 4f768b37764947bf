__all__: list[str]

from checkwise.study.figures.by_algorithm import CHANGE_NAMES as CHANGE_NAMES
from checkwise.study.figures.by_algorithm import CHANGED_METRICS as CHANGED_METRICS
from checkwise.study.figures.by_algorithm import TAU_NAMES as TAU_NAMES
from checkwise.study.figures.by_algorithm import AlgorithmChange as AlgorithmChange
from checkwise.study.figures.by_algorithm import KendallFacts as KendallFacts
from checkwise.study.figures.by_algorithm import algorithm_changes as algorithm_changes
from checkwise.study.figures.by_algorithm import change_panel as change_panel
from checkwise.study.figures.by_algorithm import rank_agreements as rank_agreements
from checkwise.study.figures.distance import DistancePoint as DistancePoint
from checkwise.study.figures.distance import distance_points as distance_points
from checkwise.study.figures.distance import near_best as near_best
from checkwise.study.figures.distance import scatter_points as scatter_points
from checkwise.study.figures.one_run import count_confident_errors as count_confident_errors
from checkwise.study.figures.one_run import count_shared_errors as count_shared_errors
from checkwise.study.figures.style import COLOURS as COLOURS
from checkwise.study.figures.style import GREY as GREY
from checkwise.study.figures.style import MARKERS as MARKERS
from checkwise.study.figures.style import legend_below as legend_below
from checkwise.study.figures.style import new_figure as new_figure
from checkwise.study.figures.style import plain_axes as plain_axes
from checkwise.study.figures.style import rule_colour as rule_colour
from checkwise.study.figures.trajectory import median_run as median_run
from checkwise.study.figures.write import FIGURES as FIGURES
from checkwise.study.figures.write import write_figures as write_figures
