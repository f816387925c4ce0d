"""How many of the partitions one replica may hold, so that all replicas have their part. No I/O."""

from __future__ import annotations


def fair_share(partitions: int, replicas: int) -> int:
    """Return the most that each of so many replicas holds: all are held, and nobody has two more than another."""
    return -(-partitions // max(1, replicas))


class Share:
    """A count of leases held, against a limit that changes as replicas come and go."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self._held = 0
        self._leaving = 0

    @property
    def held(self) -> int:
        """Leases held or being asked for."""
        return self._held

    def reserve(self) -> bool:
        """Count one more, before it is asked for; False when the limit is reached."""
        if self._held >= self.limit:
            return False
        self._held += 1
        return True

    def cancel(self) -> None:
        """Somebody else holds what was asked for."""
        self._held -= 1

    def holding(self) -> Holding:
        """What was reserved is held."""
        return Holding(self)

    def one_too_many(self) -> bool:
        """Claim the right, once for each lease above the limit, to give one back."""
        if self._held - self._leaving <= self.limit:
            return False
        self._leaving += 1
        return True

    def ended(self, *, leaving: bool) -> None:
        """A lease is not held any more."""
        self._held -= 1
        self._leaving -= leaving


class Holding:
    """One lease that is held."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._leaving = False

    def give_back(self) -> bool:
        """Tell whether this lease is to be given back."""
        self._leaving = self._leaving or self._share.one_too_many()
        return self._leaving

    def end(self) -> None:
        """The lease is not held any more."""
        self._share.ended(leaving=self._leaving)
