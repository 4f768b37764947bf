__all__: list[str]

from checkwise.calibrators.calibrator import LEAST_ERRORS as LEAST_ERRORS
from checkwise.calibrators.calibrator import SCHEMA as SCHEMA
from checkwise.calibrators.calibrator import Calibrator as Calibrator
from checkwise.calibrators.calibrator import Fitted as Fitted
from checkwise.calibrators.calibrator import numbers as numbers
from checkwise.calibrators.cross_fit import Change as Change
from checkwise.calibrators.cross_fit import change_of as change_of
from checkwise.calibrators.cross_fit import cross_fitted as cross_fitted
from checkwise.calibrators.cross_fit import nll_after as nll_after
from checkwise.calibrators.every_calibrator import DEFAULT as DEFAULT
from checkwise.calibrators.every_calibrator import calibrators as calibrators
from checkwise.calibrators.every_calibrator import fit as fit
from checkwise.calibrators.every_calibrator import from_dict as from_dict
from checkwise.calibrators.every_calibrator import get_calibrator as get_calibrator
from checkwise.calibrators.temperature import REASONS as REASONS
from checkwise.calibrators.temperature import Temperature as Temperature
from checkwise.calibrators.temperature import fit_temperature as fit_temperature
from checkwise.calibrators.ts import TS as TS
from checkwise.calibrators.ts import TS_LIMIT as TS_LIMIT
