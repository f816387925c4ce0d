"""What the HTTP listeners share: error shapes, limits while reading, event streams, servers."""
