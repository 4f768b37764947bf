__all__: list[str]

from checkwise.deployed.bundle import WEIGHTS as WEIGHTS
from checkwise.deployed.bundle import BundleFile as BundleFile
from checkwise.deployed.bundle import check_out as check_out
from checkwise.deployed.deploying import Asked as Asked
from checkwise.deployed.deploying import Deployment as Deployment
from checkwise.deployed.deploying import calibrate_run as calibrate_run
from checkwise.deployed.deploying import deploy as deploy
from checkwise.deployed.deploying import deploy_run as deploy_run
from checkwise.deployed.loading import Calibrated as Calibrated
from checkwise.deployed.loading import Deployed as Deployed
from checkwise.deployed.loading import load as load
from checkwise.deployed.loading import log_mean_probabilities as log_mean_probabilities
from checkwise.deployed.models import Format as Format
from checkwise.deployed.models import Logits as Logits
from checkwise.deployed.models import StoredModel as StoredModel
from checkwise.deployed.models import average as average
from checkwise.deployed.models import checkpoint_content as checkpoint_content
from checkwise.deployed.models import decode as decode
from checkwise.deployed.models import encode as encode
from checkwise.deployed.models import file_place as file_place
from checkwise.deployed.models import read_average as read_average
from checkwise.deployed.models import read_checkpoint as read_checkpoint
from checkwise.deployed.models import readable as readable
