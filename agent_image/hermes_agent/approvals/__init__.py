"""Which commands run, which never do, and which a person is asked about."""
