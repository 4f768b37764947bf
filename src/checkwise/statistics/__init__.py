"""Arrays in, numbers out: intervals, tests and correlations that know no runs and no files."""
