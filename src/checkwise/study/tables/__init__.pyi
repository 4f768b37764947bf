__all__: list[str]

from checkwise.study.tables.every_table import ABOUT_THE_RULE as ABOUT_THE_RULE
from checkwise.study.tables.every_table import EQUIVALENCE as EQUIVALENCE
from checkwise.study.tables.every_table import PAPER as PAPER
from checkwise.study.tables.every_table import SLOW as SLOW
from checkwise.study.tables.every_table import TABLES as TABLES
from checkwise.study.tables.every_table import build as build
from checkwise.study.tables.every_table import build_all as build_all
from checkwise.study.tables.every_table import check_name as check_name
from checkwise.study.tables.every_table import usual_names as usual_names
from checkwise.study.tables.means_and_changes import MeanInterval as MeanInterval
from checkwise.study.tables.means_and_changes import mean_interval as mean_interval
from checkwise.study.tables.rank_agreement import METRICS as METRICS
from checkwise.study.tables.rank_agreement import all_checkpoints as all_checkpoints
from checkwise.study.tables.table import Cell as Cell
from checkwise.study.tables.table import Table as Table
from checkwise.study.tables.training import by_rate as by_rate
from checkwise.study.tables.typeset import latex as latex
from checkwise.study.tables.typeset import markdown as markdown
