__version__: str
__all__: list[str]

from checkwise import integrations as integrations
from checkwise import metrics as metrics
from checkwise import study as study
from checkwise import testing as testing
from checkwise.deployed import deploy as deploy
from checkwise.errors import CheckwiseError as CheckwiseError
from checkwise.errors import CheckwiseWarning as CheckwiseWarning
from checkwise.errors import InputError as InputError
from checkwise.errors import MissingExtraError as MissingExtraError
from checkwise.errors import MissingMetricError as MissingMetricError
from checkwise.errors import NoGuaranteeError as NoGuaranteeError
from checkwise.integrations import LiveSelector as LiveSelector
from checkwise.metrics import metric as metric
from checkwise.readers import load as load
from checkwise.readers import load_runs as load_runs
from checkwise.records import RunKey as RunKey
from checkwise.records import Trajectory as Trajectory
from checkwise.selection import Choice as Choice
from checkwise.selection import Selection as Selection
from checkwise.selection import loss_valley as loss_valley
from checkwise.selection import rule as rule
from checkwise.selection import rules as rules
from checkwise.selection import select as select
from checkwise.selection import select_many as select_many
from checkwise.selection import source_accuracy_radius as source_accuracy_radius
