__all__: list[str]

from checkwise.study.inference.clusters import ClusterMeans as ClusterMeans
from checkwise.study.inference.clusters import Clusters as Clusters
from checkwise.study.inference.clusters import PlaceMeans as PlaceMeans
from checkwise.study.inference.clusters import RiskCoverage as RiskCoverage
from checkwise.study.inference.clusters import cluster_means as cluster_means
from checkwise.study.inference.clusters import numbered as numbered
from checkwise.study.inference.clusters import over_places as over_places
from checkwise.study.inference.clusters import risk_coverage as risk_coverage
from checkwise.study.inference.clusters import spread as spread
from checkwise.study.inference.clusters import trimmed_mean as trimmed_mean
from checkwise.study.inference.clusters import two_way_means as two_way_means
from checkwise.study.inference.hypotheses import ALPHA as ALPHA
from checkwise.study.inference.hypotheses import ENUMERATED as ENUMERATED
from checkwise.study.inference.hypotheses import POWER as POWER
from checkwise.study.inference.hypotheses import equivalence as equivalence
from checkwise.study.inference.hypotheses import holm as holm
from checkwise.study.inference.hypotheses import max_t as max_t
from checkwise.study.inference.hypotheses import (
    minimum_detectable_effect as minimum_detectable_effect,
)
from checkwise.study.inference.hypotheses import sign_patterns as sign_patterns
from checkwise.study.inference.hypotheses import wild_interval as wild_interval
from checkwise.study.inference.hypotheses import wild_p_value as wild_p_value
