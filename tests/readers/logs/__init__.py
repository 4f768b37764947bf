"""Tests of trainers' logs."""
