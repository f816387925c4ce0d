"""HermesCronJobs that are asked for over the bus: checked here, written to the API server under the operator's rights."""
