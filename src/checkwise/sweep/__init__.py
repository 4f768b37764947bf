"""Study files, the runs they plan, and the processes that train them."""
