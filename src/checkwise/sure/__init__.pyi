__all__: list[str]

from checkwise.sure.bounds import Corrected as Corrected
from checkwise.sure.bounds import PairedBound as PairedBound
from checkwise.sure.bounds import optimism as optimism
from checkwise.sure.bounds import paired_bound as paired_bound
from checkwise.sure.shares import Stability as Stability
from checkwise.sure.shares import stability as stability
from checkwise.sure.words import HEAD as HEAD
from checkwise.sure.words import Sureness as Sureness
from checkwise.sure.words import how_sure as how_sure
from checkwise.sure.words import sureness as sureness
