"""The gateway image: three roles that share a base and nothing else.

`gateway` talks to people, `store` owns the database, `models` owns provider keys. They meet on the bus only.
"""
