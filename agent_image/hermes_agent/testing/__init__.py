"""Stand-ins for what surrounds the loop: typed, with the real ones' semantics. The product never imports them."""
