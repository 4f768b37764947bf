"""Simulations behind what the pages say of intervals, stability and bounds."""
