"""A cohort on disk: whole files, append-only journals, and results that stay apart."""
