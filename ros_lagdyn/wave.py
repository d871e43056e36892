# SPDX-License-Identifier: Apache-2.0
"""A gentle motion to look at, for an arm that nobody commands yet."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.generalized_forces import ForcedDynamics
from ros_lagdyn.joint_stops import joint_stops
from ros_lagdyn.rigid_body import Array


class Wave:
    """A gentle motion of all joints around a pose, and the torques that it takes.

    Each joint swings as a sine, at frequencies that do not fit together, so that the arm passes
    through all combinations; at most half-way to a stop and at half the speed limit.
    """

    LARGEST = 0.8  # [rad] or [m], from the centre
    FASTEST = 1.5  # [rad/s] or [m/s]
    PERIOD = 4.0  # [s], of the first joint; later ones are faster

    def __init__(self, dynamics: Dynamics, centre: Array, *, friction: bool = True) -> None:
        """Take an arm and the pose (n,) that it swings around."""
        arm = dynamics.arm
        lower, upper = joint_stops(arm)
        self._dynamics = dynamics
        self._friction = ForcedDynamics(dynamics).friction if friction else np.zeros_like
        self._centre = centre
        golden = (sqrt(5.0) - 1.0) / 2.0
        self._w = 2.0 * np.pi / self.PERIOD * (1.0 + golden * np.arange(len(centre)))
        limits = np.array([joint.limit.velocity or inf for joint in arm.independent_joints])
        fastest = np.minimum(self.FASTEST, 0.5 * limits)
        room = 0.5 * np.minimum(upper - centre, centre - lower)
        self._A = np.minimum(np.minimum(room, self.LARGEST), fastest / self._w)

    def at(self, t: float) -> tuple[Array, Array, Array]:
        """Return positions, velocities and torques, each (n,), t seconds after the start."""
        sine, cosine = np.sin(self._w * t), np.cos(self._w * t)
        q = self._centre + self._A * sine
        v = self._A * self._w * cosine
        tau = self._dynamics.inverse_dynamics(q, v, -self._A * self._w**2 * sine)
        return q, v, tau + self._friction(v)
