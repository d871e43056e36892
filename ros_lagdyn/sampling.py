# SPDX-License-Identifier: Apache-2.0
"""Seeded random states of an arm, within its joint limits."""

from __future__ import annotations

from math import inf, pi

import numpy as np

from ros_lagdyn.arm import Arm
from ros_lagdyn.rigid_body import Array

# Where the URDF sets no limit: a whole turn, or a metre either way.
FREE_TURN = pi  # [rad]
FREE_SLIDE = 1.0  # [m]
FASTEST = 5.0  # [rad/s] or [m/s], also where the URDF allows more
HARDEST = 20.0  # [rad/s^2] or [m/s^2]


def random_states(arm: Arm, count: int, seed: int) -> tuple[Array, Array, Array]:
    """Return positions, velocities and accelerations, each (count, n), the same for each seed."""
    rng = np.random.default_rng(seed)
    limits = [joint.limit for joint in arm.independent_joints]
    free = [FREE_TURN if joint.turns else FREE_SLIDE for joint in arm.independent_joints]
    lower = [-f if limit.lower == -inf else limit.lower
             for limit, f in zip(limits, free, strict=True)]
    upper = [f if limit.upper == inf else limit.upper
             for limit, f in zip(limits, free, strict=True)]
    fastest = np.array([min(limit.velocity, FASTEST) or FASTEST for limit in limits])
    shape = (count, len(limits))
    q = rng.uniform(lower, upper, shape)
    v = rng.uniform(-1.0, 1.0, shape) * fastest
    a = rng.uniform(-HARDEST, HARDEST, shape)
    return q, v, a
