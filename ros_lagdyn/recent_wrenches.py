# SPDX-License-Identifier: Apache-2.0
"""What pushes the arm just now: the newest wrench at each link, until it is too old."""

from __future__ import annotations

from ros_lagdyn.generalized_forces import Wrench


class RecentWrenches:
    """Keeps one wrench per link. Several links may be pushed at once."""

    def __init__(self, timeout: float) -> None:
        """Take the age [s] from which a wrench no longer counts; 0 keeps it for ever."""
        self.timeout = timeout
        self._newest: dict[str, tuple[float, Wrench]] = {}  # by link: when, what

    def put(self, wrench: Wrench, now: float) -> None:
        """Take a wrench in place of the last one at its link; `now` [s] is of a steady clock."""
        self._newest[wrench.frame] = (now, wrench)

    def current(self, now: float) -> tuple[Wrench, ...]:
        """Return the wrenches that are younger than the timeout, and forget the others."""
        if not self._newest:
            return ()
        if self.timeout > 0.0:
            for frame in [frame for frame, (when, _) in self._newest.items()
                          if now - when >= self.timeout]:
                del self._newest[frame]
        return tuple(wrench for _, wrench in self._newest.values())

    def clear(self) -> None:
        """Forget all."""
        self._newest.clear()
