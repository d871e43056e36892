# SPDX-License-Identifier: Apache-2.0
"""Seeded random states of an arm, within its joint limits."""

from __future__ import annotations

from math import inf, pi, prod
from random import Random

import numpy as np

from ros_lagdyn.arm import Arm
from ros_lagdyn.rigid_body import Array

# Where the URDF sets no limits, or none that leave room (0 to 0, which is what it means by
# leaving them out): a whole turn, or a metre either way.
FREE_TURN = pi  # [rad]
FREE_SLIDE = 1.0  # [m]
# Limits beyond these are no limits of a machine, and would only cost digits.
FARTHEST_TURN = 4.0 * pi  # [rad]
FARTHEST_SLIDE = 1e4  # [m]
FASTEST = 5.0  # [rad/s] or [m/s], also where the URDF allows more
HARDEST = 20.0  # [rad/s^2] or [m/s^2]


def position_ranges(arm: Arm) -> tuple[Array, Array]:
    """Return lower and upper bounds (n,) between which positions of an arm are tried."""
    ranges = []
    for joint in arm.independent_joints:
        free, farthest = (FREE_TURN, FARTHEST_TURN) if joint.turns else (
            FREE_SLIDE, FARTHEST_SLIDE)
        lower = -free if joint.limit.lower == -inf else joint.limit.lower
        upper = free if joint.limit.upper == inf else joint.limit.upper
        lower, upper = max(lower, -farthest), min(upper, farthest)
        ranges.append((lower, upper) if lower < upper else (-free, free))
    lower_bounds, upper_bounds = np.array(ranges).T
    return lower_bounds, upper_bounds


def random_states(arm: Arm, count: int, seed: int) -> tuple[Array, Array, Array]:
    """Return positions, velocities and accelerations, each (count, n), the same for each seed.

    `arm` is what load_arm() returns, or the attribute of that name of an engine.

    Positions lie within the joint limits, where these are limits of a machine.
    """
    random = Random(seed).random  # numpy.random takes longer to import than the self-test runs
    lower, upper = position_ranges(arm)
    fastest = np.array([min(joint.limit.velocity, FASTEST) or FASTEST
                        for joint in arm.independent_joints])
    shape = (3, count, len(arm.joints))
    shares = np.array([random() for _ in range(prod(shape))]).reshape(shape)
    return (lower + shares[0] * (upper - lower),
            (2.0 * shares[1] - 1.0) * fastest,
            (2.0 * shares[2] - 1.0) * HARDEST)
