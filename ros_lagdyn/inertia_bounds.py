# SPDX-License-Identifier: Apache-2.0
r"""Uniform bounds of the inertia matrix of a revolute arm (001).

.. math:: \lambda_m I \le M(q) \le \lambda_M I \quad\text{for all } q

These are bounds, not samples. For each vector x, x' M(q) x is a trigonometric polynomial of q,
of degree d_k = 2 in each joint angle (M is quadratic in rotations; a mimic joint adds to the
degree of the joint that it follows). A real trigonometric polynomial of degree d is nowhere
larger than 1 / cos(pi d / N) times its largest value at N > 2 d evenly spaced angles (Ehlich and
Zeller, 1964). Applied to M - c I on a grid, with c in the middle of the eigenvalues seen there,
this gives both bounds at once.

A second lower bound needs no grid: M = L diag(D) L' with D_k the articulated-body inertia felt by
joint k, which is at least the inertia J_k of its own link alone. So det M >= J_1 ... J_n, and the
smallest eigenvalue is at least that over lambda_M^(n-1). It is weak, but it reaches arms with too
many joints for a fine grid. The better one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import cos, lcm, pi, prod

import numpy as np

from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.errors import LagdynError
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.structure import structure

GRID_POINTS = 50_000
MOST_PER_JOINT = 2_000
MOST_POINTS = 400_000


@dataclass(frozen=True, kw_only=True)
class InertiaBounds:
    """Bounds of the eigenvalues of M over all poses, and the extremes seen on the way."""

    lower: float  # lambda_m: no eigenvalue is smaller; 0 where none better is known
    upper: float  # lambda_M: no eigenvalue is larger
    least_seen: float  # so lambda_m cannot be larger than this
    greatest_seen: float  # so lambda_M cannot be smaller than this


def inertia_bounds(dynamics: Dynamics) -> InertiaBounds:
    """Bound the inertia matrix of an arm with revolute joints only.

    Raises:
        LagdynError: a prismatic joint, whose travel may make M grow without bound, or a mimic
            multiplier that is not a simple fraction, or more than about seven joints.
    """
    arm = dynamics.arm
    for body in arm.bodies:
        if not body.joint.turns:
            raise LagdynError(
                f'joint "{body.joint.name}" is prismatic: uniform bounds of M exist for arms '
                'with revolute joints only')
    if not dynamics.in_joint_coordinates:
        raise LagdynError('uniform bounds of M are known in joint coordinates only')
    found = structure(dynamics)
    varying = sorted({joint for row in found.mass_matrix_varies_with for entry in row
                      for joint in entry}, key=dynamics.joints.index)
    turns, degrees = _periods_and_degrees(dynamics, varying)
    axes, stretch = [], 1.0
    per_joint = _points_per_joint(degrees)
    if prod(per_joint) > MOST_POINTS:
        raise LagdynError(f'M varies with {len(varying)} joints: a grid of {prod(per_joint):.0e} '
                          f'poses would be needed, at most {MOST_POINTS:.0e} are tried')
    for count, period, degree in zip(per_joint, turns, degrees, strict=True):
        axes.append(np.arange(count) * (2.0 * pi * period / count))
        stretch /= cos(pi * degree / count)
    q = np.zeros((prod(per_joint), len(dynamics.joints)))
    for joint, grid in zip(varying, np.meshgrid(*axes, indexing='ij'), strict=True):
        q[:, dynamics.joints.index(joint)] = grid.ravel()
    M = dynamics.mass_matrix(q)
    if not np.isfinite(M).all():
        raise LagdynError(f'engine {dynamics.engine} returns an M that is not finite')
    eigenvalues = np.linalg.eigvalsh(M)
    least, greatest = float(eigenvalues[:, 0].min()), float(eigenvalues[:, -1].max())
    centre, radius = 0.5 * (greatest + least), 0.5 * (greatest - least)
    # Rounding of the eigenvalues themselves must not lift a bound above the truth.
    rounding = 100.0 * np.finfo(float).eps * greatest
    upper = centre + stretch * radius + rounding
    lower = max(centre - stretch * radius - rounding, _determinant_bound(dynamics, upper), 0.0)
    return InertiaBounds(
        lower=float(lower), upper=float(upper), least_seen=least, greatest_seen=greatest)


def _periods_and_degrees(dynamics: Dynamics, varying: list[str]) -> tuple[list[int], list[int]]:
    """Return after how many turns M repeats in each joint, and its degree over that period."""
    periods, degrees = [], []
    for joint in varying:
        multipliers: Array = dynamics.arm.projection[:, dynamics.joints.index(joint)]
        fractions = [Fraction(float(value)).limit_denominator(64) for value in multipliers]
        for fraction, value in zip(fractions, multipliers, strict=True):
            if abs(float(fraction) - value) > 1e-12:
                raise LagdynError(f'joint "{joint}" is mimicked with multiplier {value:g}: M '
                                  'does not repeat after whole turns, no bounds are known')
        period = lcm(*(fraction.denominator for fraction in fractions))
        periods.append(period)
        degrees.append(int(sum(2 * abs(fraction) * period for fraction in fractions)))
    return periods, degrees


def _points_per_joint(degrees: list[int]) -> list[int]:
    """Return grid sizes, in proportion to the degrees, with at least 2 d + 2 points each."""
    if not degrees:
        return []
    total = GRID_POINTS
    factor = (total / prod(degrees)) ** (1.0 / len(degrees))
    return [max(2 * d + 2, min(int(factor * d), MOST_PER_JOINT)) for d in degrees]


def _determinant_bound(dynamics: Dynamics, upper: float) -> float:
    arm = dynamics.arm
    if arm.has_mimic:
        return 0.0
    own = [float(body.joint.axis @ body.inertia.about(np.zeros(3)) @ body.joint.axis)
           for body in arm.bodies]
    return float(prod(own)) / upper ** (len(own) - 1)
