# SPDX-License-Identifier: Apache-2.0
"""Whether one side loses more than the other by more than chance."""

from __future__ import annotations

from math import comb

UNLIKELY = 0.05


def chance_of(node: int, relay: int) -> float:
    """Return how likely a fair coin is to show `node` heads or more beside `relay` tails."""
    tosses = node + relay
    return sum(comb(tosses, heads) for heads in range(node, tosses + 1)) / 2**tosses
