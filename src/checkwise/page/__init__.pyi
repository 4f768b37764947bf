__all__: list[str]

from checkwise.page.document import Child as Child
from checkwise.page.document import Markup as Markup
from checkwise.page.document import bound_section as bound_section
from checkwise.page.document import controls as controls
from checkwise.page.document import el as el
from checkwise.page.document import framed_table as framed_table
from checkwise.page.document import join as join
from checkwise.page.document import live_details as live_details
from checkwise.page.document import live_run as live_run
from checkwise.page.document import masthead as masthead
from checkwise.page.document import paragraphs as paragraphs
from checkwise.page.document import section as section
from checkwise.page.document import whole_page as whole_page
from checkwise.page.one_run import run_page as run_page
from checkwise.page.one_run import selection_page as selection_page
from checkwise.page.one_run import write_page as write_page
from checkwise.page.packed_numbers import BUDGET as BUDGET
from checkwise.page.packed_numbers import payload as payload
from checkwise.page.starting_data import explored as explored
