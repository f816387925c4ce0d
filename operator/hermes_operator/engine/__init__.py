"""The engine under the reconciles: a rate-limited queue with one heap of due times, a leader's lease, workers."""
