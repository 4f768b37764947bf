__all__: list[str]

from checkwise.predict.checkpoints import SUFFIXES as SUFFIXES
from checkwise.predict.checkpoints import families_near as families_near
from checkwise.predict.evaluating import JOBS as JOBS
from checkwise.predict.evaluating import Elsewhere as Elsewhere
from checkwise.predict.evaluating import Evaluated as Evaluated
from checkwise.predict.evaluating import PredictResult as PredictResult
from checkwise.predict.evaluating import predict as predict
from checkwise.predict.function import FunctionName as FunctionName
from checkwise.predict.outputs import known_facts as known_facts
from checkwise.predict.outputs import saved_facts as saved_facts
from checkwise.predict.pool import Failure as Failure
from checkwise.predict.pool import Pool as Pool
from checkwise.predict.pool import Task as Task
from checkwise.predict.pool import Worker as Worker
from checkwise.predict.stopping import ONE_THREAD as ONE_THREAD
from checkwise.predict.stopping import Child as Child
from checkwise.predict.stopping import stopped_by as stopped_by
from checkwise.predict.stopping import terminated_like_interrupted as terminated_like_interrupted
