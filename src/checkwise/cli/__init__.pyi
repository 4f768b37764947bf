__all__: list[str]

from checkwise.cli.command import OUTPUT as OUTPUT
from checkwise.cli.command import Option as Option
from checkwise.cli.entry import COMMANDS as COMMANDS
from checkwise.cli.entry import STUDY_COMMANDS as STUDY_COMMANDS
from checkwise.cli.entry import app as app
from checkwise.cli.entry import commands as commands
from checkwise.cli.entry import main as main
from checkwise.cli.printing import commands_with_schema as commands_with_schema
from checkwise.cli.printing import schema as schema
