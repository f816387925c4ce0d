"""The operator: turns HermesSession and Profile objects into pods, credentials and bus consumers."""
