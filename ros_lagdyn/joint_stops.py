# SPDX-License-Identifier: Apache-2.0
"""How far the independent joints of an arm can go, mimic joints considered."""

from __future__ import annotations

from math import inf

import numpy as np

from ros_lagdyn.arm import Arm
from ros_lagdyn.rigid_body import Array


def joint_stops(arm: Arm) -> tuple[Array, Array]:
    """Return the lowest and highest positions (n,) that all limits allow, infinite for none.

    Limits that leave no room (0 to 0, which is what URDF means by leaving them out) are none. So
    are those of a mimic joint which contradict the joint that it follows.
    """
    lower, upper = np.full(len(arm.joints), -inf), np.full(len(arm.joints), inf)
    # Independent joints first: theirs are the limits that others must not contradict.
    rows = sorted(range(len(arm.bodies)), key=lambda row: arm.bodies[row].joint.mimic is not None)
    for row in rows:
        limit = arm.bodies[row].joint.limit
        leader = int(np.argmax(abs(arm.projection[row])))
        multiplier = arm.projection[row, leader]
        if not limit.lower < limit.upper or multiplier == 0.0:
            continue
        ends = sorted((np.array([limit.lower, limit.upper]) - arm.offset[row]) / multiplier)
        low, high = max(ends[0], lower[leader]), min(ends[1], upper[leader])
        if low < high:
            lower[leader], upper[leader] = low, high
    return lower, upper


def home_position(arm: Arm) -> Array:
    """Return a position (n,) where every joint can move both ways [rad] or [m].

    It is 0, or the middle between the stops for a joint that is not free to both sides there.
    """
    lower, upper = joint_stops(arm)
    position = np.zeros(len(arm.joints))
    held = (lower >= 0.0) | (upper <= 0.0)  # stops come in pairs, so both are finite
    position[held] = 0.5 * (lower[held] + upper[held])
    return position
