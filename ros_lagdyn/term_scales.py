# SPDX-License-Identifier: Apache-2.0
r"""How large each term of the equation of motion can be: what differences are measured against.

A relative difference needs a scale that does not vanish with the term: gravity is 0 where an arm
hangs, C is 0 where it rests, an entry of M is 0 where links are at right angles. These scales
depend on the arm only, not on where it is. With R the longest way from a joint to the mass of a
body (the way to its centre of mass, and the radius of gyration from there),

.. math::
    S_{ij} = \sqrt{D_i D_j}, \quad D_i = \sum_b m_b R_{bi}^2 + \lambda_{max}(I_b), \quad
    G_i = |g| \sum_b m_b R_{bi}

for a revolute joint, and D_i = sum of m_b, G_i = |g| D_i for a prismatic one, so that every entry
is measured in its own unit. |M_ij| <= S_ij and |g_i| <= G_i hold everywhere within joint limits.
"""

from __future__ import annotations

import numpy as np

from ros_lagdyn.arm import BASE, Arm
from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.sampling import position_ranges

BLUR = 1e-3


class TermScales:
    """Scales of M, C, g and tau of one arm."""

    def __init__(self, dynamics: Dynamics, blur: float = BLUR) -> None:
        """Take an arm with its gravity; which engine computes it does not matter.

        Args:
            dynamics: the arm.
            blur: engines compute with positions, whose rounding grows with the distance from the
                root. This share of the longest distance is added to every way, so that the
                rounding stays far below the scale.
        """
        arm = dynamics.arm
        P = abs(arm.projection @ dynamics.joint_rates_of_coordinates)
        reach = _longest_ways(arm, blur)
        masses = np.array([body.inertia.mass for body in arm.bodies])
        moments = np.array([
            np.linalg.eigvalsh(body.inertia.tensor)[-1] for body in arm.bodies])
        turns = np.array([body.joint.turns for body in arm.bodies])
        moved = arm.moved_by
        inertias = np.where(
            turns, (masses[:, None] * reach**2 + moments[:, None] * moved).sum(0), masses @ moved)
        first_moments = np.where(turns, masses @ reach, masses @ moved)
        roots = np.sqrt(inertias) @ P
        # A revolute joint changes M within about 1 rad, a prismatic one within about the arm's
        # size.
        size = max(float(reach.max()), 1e-3)
        self.S: Array = np.outer(roots, roots)  # (n, n)
        self.G: Array = float(np.linalg.norm(dynamics.gravity_vector)) * first_moments @ P
        self.rate_weights: Array = np.where(turns, 1.0, 1.0 / size) @ P  # (n,)

    def mass_matrix(self) -> Array:
        """Return S; shape (n, n)."""
        return self.S

    def rate(self, v: Array) -> Array:
        """Return how fast M can change, in 1/s, at velocities (N, n); shape (N,)."""
        return abs(v) @ self.rate_weights

    def coriolis_matrix(self, v: Array) -> Array:
        """Return the scale of C at velocities (N, n); shape (N, n, n)."""
        return self.rate(v)[:, None, None] * self.S

    def gravity(self) -> Array:
        """Return G; shape (n,)."""
        return self.G

    def torque(self, v: Array, a: Array) -> Array:
        """Return the scale of tau at velocities and accelerations (N, n); shape (N, n)."""
        return (abs(a) + self.rate(v)[:, None] * abs(v)) @ self.S + self.G


def relative(difference: Array, scale: Array) -> float:
    """Return the largest |difference| / scale; 0 where both are 0, infinite for a NaN."""
    difference, scale = np.broadcast_arrays(abs(difference), scale)
    if difference.size == 0:
        return 0.0
    if not np.isfinite(difference).all():
        return float('inf')
    with np.errstate(divide='ignore', invalid='ignore', over='ignore'):
        ratios = np.where(difference == 0.0, 0.0, difference / scale)
    return float(np.nan_to_num(ratios, nan=np.inf, posinf=np.inf).max())


def _longest_ways(arm: Arm, blur: float) -> Array:
    """Return the longest way [m] from a joint to the mass of a body; (bodies, tree joints).

    It is the sum of all segments between them, with prismatic joints in between drawn out to
    their limits (to 1 m where they have none), and 0 where the joint does not move the body.
    """
    ways = np.zeros((len(arm.bodies), len(arm.bodies)))
    strokes = _strokes(arm)
    farthest = 0.0
    for index, body in enumerate(arm.bodies):
        inertia = body.inertia
        gyration = (np.sqrt(max(np.linalg.eigvalsh(inertia.tensor)[-1], 0.0) / inertia.mass)
                    if inertia.mass > 0.0 else 0.0)
        length = float(np.linalg.norm(inertia.com) + gyration)
        current = index
        while current != BASE:
            ways[index, current] = length
            link = arm.bodies[current]
            length += float(np.linalg.norm(link.placement.translation))
            if not link.joint.turns:
                length += strokes[current]
            current = link.parent
        farthest = max(farthest, length)
    return ways + blur * farthest * arm.moved_by


def _strokes(arm: Arm) -> Array:
    """Return how far each tree joint can be from 0; a mimic joint goes where its leader goes."""
    lower, upper = position_ranges(arm)
    return abs(arm.projection) @ np.maximum(abs(lower), abs(upper)) + abs(arm.offset)
