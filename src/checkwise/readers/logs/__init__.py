"""Trainers' logs: what Keras, Lightning, transformers, TensorBoard and others write by default.

Every kind of file is opened as one or more :class:`~checkwise.readers.logs.log.Log`; which of its
columns are read, and how its rows become checkpoints, is the same for all kinds.
"""
