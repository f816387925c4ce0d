"""Scheduled runs: the pass over HermesCronJobs, and what it does."""
