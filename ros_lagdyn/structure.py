# SPDX-License-Identifier: Apache-2.0
r"""The structural questions of 001: is M constant? Diagonal? C = 0? g = 0? What couples with what?

Asked of an arm as it is loaded, by any engine. Derivatives of M come from the Christoffel symbols,
dM/dq_k = C(q, e_k) + C(q, e_k)', so nothing is differenced. Entries of M and g are analytic in q:
one that is constant at random states is constant everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np

from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.term_scales import TermScales

STATES = 32
ZERO = 1e-11  # relative to how large a term can be; rounding of a long chain stays below


@dataclass(frozen=True, kw_only=True)
class Structure:
    """What holds for every pose of an arm."""

    joints: tuple[str, ...]
    mass_matrix_varies_with: tuple[tuple[tuple[str, ...], ...], ...]  # per entry: the joints
    coupled: tuple[tuple[str, str], ...]  # pairs of joints with M_ij not 0 everywhere
    gravity_varies_with: tuple[tuple[str, ...], ...]  # per entry: the joints
    mass_matrix_constant: bool
    mass_matrix_diagonal: bool
    coriolis_zero: bool
    gravity_zero: bool

    @property
    def linear(self) -> bool:
        """Say whether the equation of motion is linear: M constant, so C = 0, and g = 0 (001)."""
        return self.mass_matrix_constant and self.gravity_zero


def structure(dynamics: Dynamics, seed: int = 0) -> Structure:
    """Answer the structural questions for a loaded arm.

    They are asked of all positions, not only of those within joint limits.
    """
    joints = dynamics.joints
    n = len(joints)
    scales = TermScales(dynamics)
    q = _any_positions(dynamics, seed)
    M, g = dynamics.mass_matrix(q), dynamics.gravity(q)
    varies = np.zeros((n, n, n), dtype=bool)
    gravity_varies = np.zeros((n, n), dtype=bool)
    unit = np.eye(n)
    for k in range(n):
        C = dynamics.coriolis_matrix(q, np.broadcast_to(unit[k], q.shape))
        dM = C + np.swapaxes(C, 1, 2)
        varies[:, :, k] = np.any(abs(dM) > ZERO * scales.rate_weights[k] * scales.S, axis=0)
        moved = q + unit[k] / np.maximum(scales.rate_weights[k], 1e-300)
        gravity_varies[:, k] = np.any(
            abs(dynamics.gravity(moved) - g) > ZERO * scales.G, axis=0)
    nonzero = np.any(abs(M) > ZERO * scales.S, axis=0)
    coupled = tuple((joints[i], joints[j]) for i in range(n) for j in range(i + 1, n)
                    if nonzero[i, j])
    constant = not varies.any()
    return Structure(
        joints=joints,
        mass_matrix_varies_with=tuple(
            tuple(_names(joints, varies[i, j]) for j in range(n)) for i in range(n)),
        coupled=coupled,
        gravity_varies_with=tuple(_names(joints, row) for row in gravity_varies),
        mass_matrix_constant=constant,
        mass_matrix_diagonal=not coupled,
        # C is linear in dM/dq and dM/dq = C(e_k) + C(e_k)': each vanishes with the other.
        coriolis_zero=constant,
        gravity_zero=bool((abs(g) <= ZERO * scales.G).all()),
    )


def _any_positions(dynamics: Dynamics, seed: int) -> Array:
    spread = [pi if joint.turns else 1.0 for joint in dynamics.arm.independent_joints]
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (STATES, len(spread))) * spread


def _names(joints: tuple[str, ...], mask: Array) -> tuple[str, ...]:
    return tuple(name for name, hit in zip(joints, mask, strict=True) if hit)
