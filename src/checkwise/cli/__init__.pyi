__all__: list[str]

from checkwise.cli.entry import app as app
from checkwise.cli.entry import main as main
