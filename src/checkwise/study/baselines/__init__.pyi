__all__: list[str]

from checkwise.study.baselines.across_domains import ACROSS_DOMAINS as ACROSS_DOMAINS
from checkwise.study.baselines.derived import SOURCE as SOURCE
from checkwise.study.baselines.derived import Derived as Derived
from checkwise.study.baselines.derived import digest_of as digest_of
from checkwise.study.baselines.derived import folder_of as folder_of
from checkwise.study.baselines.derived import heldout_file as heldout_file
from checkwise.study.baselines.derived import read_record as read_record
from checkwise.study.baselines.derived import read_source as read_source
from checkwise.study.baselines.derived import write as write
from checkwise.study.baselines.deriving import DeriveJob as DeriveJob
from checkwise.study.baselines.deriving import DeriveResult as DeriveResult
from checkwise.study.baselines.deriving import derive as derive
from checkwise.study.baselines.deriving import derive_with_workers as derive_with_workers
from checkwise.study.baselines.ensemble import ENSEMBLES as ENSEMBLES
from checkwise.study.baselines.evaluate import KEPT_BYTES as KEPT_BYTES
from checkwise.study.baselines.evaluate import KeptOutputs as KeptOutputs
from checkwise.study.baselines.evaluate import OpenRun as OpenRun
from checkwise.study.baselines.evaluate import OpenRuns as OpenRuns
from checkwise.study.baselines.means import DEPLOYED as DEPLOYED
from checkwise.study.baselines.means import MEANS as MEANS
from checkwise.study.baselines.means import averaged as averaged
from checkwise.study.baselines.own_models import models_of as models_of
from checkwise.study.baselines.recipe import BATCHNORM as BATCHNORM
from checkwise.study.baselines.recipe import Needs as Needs
from checkwise.study.baselines.recipe import Recipe as Recipe
