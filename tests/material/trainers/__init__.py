"""Logs and checkpoint folders that trainers left after short real trainings."""
