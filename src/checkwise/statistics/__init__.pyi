__all__: list[str]

from checkwise.statistics.bootstrap import LEVEL as LEVEL
from checkwise.statistics.bootstrap import RESAMPLES as RESAMPLES
from checkwise.statistics.bootstrap import SEED as SEED
from checkwise.statistics.bootstrap import bootstrap_interval as bootstrap_interval
from checkwise.statistics.bootstrap import check_draws as check_draws
from checkwise.statistics.bootstrap import finite_table as finite_table
from checkwise.statistics.bootstrap import resampled_group_means as resampled_group_means
from checkwise.statistics.bootstrap import resampled_means as resampled_means
from checkwise.statistics.draws import TOGETHER as TOGETHER
from checkwise.statistics.draws import resampled_counts as resampled_counts
from checkwise.statistics.draws import stream_seed as stream_seed
from checkwise.statistics.paired_bounds import not_shown_worse as not_shown_worse
from checkwise.statistics.paired_bounds import regret as regret
from checkwise.statistics.paired_bounds import regret_of_worst_domain as regret_of_worst_domain
from checkwise.statistics.paired_sample import Resample as Resample
from checkwise.statistics.paired_sample import Stratified as Stratified
from checkwise.statistics.ranks import Transfer as Transfer
from checkwise.statistics.ranks import isotonic as isotonic
from checkwise.statistics.ranks import kendall as kendall
from checkwise.statistics.ranks import partial_spearman as partial_spearman
from checkwise.statistics.ranks import spearman as spearman
from checkwise.statistics.ranks import transfer as transfer
