"""The study behind the pages in docs/study: from packed cohorts to tables, claims and figures."""
