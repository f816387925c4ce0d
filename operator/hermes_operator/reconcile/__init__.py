"""Pure decisions: what was observed goes in, a plan comes out; no I/O, no clock, no library of Kubernetes."""
