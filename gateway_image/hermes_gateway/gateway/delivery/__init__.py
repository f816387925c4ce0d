"""Answers on their way out: one gateway a partition under a lease, a record before each call, part after part."""
