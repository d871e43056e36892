# SPDX-License-Identifier: Apache-2.0
r"""The general Euler-Lagrange recipe, for any tree of revolute and prismatic joints.

.. math::
    D(q) = \sum_i m_i J_{v_i}^T J_{v_i} + J_{\omega_i}^T R_i I_i R_i^T J_{\omega_i}
    \quad\text{(002, eq. 3)}

    c_{ijk} = \tfrac12 \left(\frac{\partial d_{kj}}{\partial q_i}
        + \frac{\partial d_{ki}}{\partial q_j} - \frac{\partial d_{ij}}{\partial q_k}\right)
    \quad\text{(002, eq. 6)}, \qquad
    c_{kj} = \sum_i c_{ijk}\,\dot q_i \quad\text{(002, eq. 9)}

    P = -\sum_i m_i\, g^T r_{ci} \quad\text{(002, eq. 5, g along gravity)}, \qquad
    g_k = \frac{\partial P}{\partial q_k} = -\sum_i m_i\, g^T J_{v_i,k}

The derivatives of D are analytic. Of two joints on the way to a body, let j be the one nearer to
the base. Turning k swings column j of J_v only through the body's point, turning j turns column k
as a whole:

.. math:: \frac{\partial J_{v,j}}{\partial q_k} = \frac{\partial J_{v,k}}{\partial q_j}
    = b_j \times J_{v,k}  \quad\text{(0 where j is prismatic)}

Seen from the body itself, where I_i is constant, the axis of j turns back when a later k turns:

.. math:: R_i\,\frac{\partial (R_i^T J_{\omega,j})}{\partial q_k} = - b_k \times b_j
    \quad (k \text{ after } j), \qquad 0 \quad (k \text{ before } j)

An arm with mimic joints is its full tree, projected by the constant P of q_tree = P q + offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.arm import Arm
from ros_lagdyn.dynamics import EARTH_GRAVITY, Dynamics
from ros_lagdyn.kinematics import Poses, cross
from ros_lagdyn.rigid_body import Array

CHUNK_NUMBERS = 2_000_000  # in the largest array at once: 16 MB


@dataclass(frozen=True, kw_only=True, eq=False)
class _Jacobians:
    poses: Poses
    v: Array  # J_v of the centres of mass, (N, bodies, tree joints, 3)
    w: Array  # J_w, the same shape


class LagrangianDynamics(Dynamics):
    """Computes an arm from the Jacobians of its links; shares nothing with Pinocchio."""

    engine = 'lagrangian'

    def __init__(self, arm: Arm, gravity: ArrayLike = EARTH_GRAVITY) -> None:
        """Take an arm and gravity (3,) [m/s^2]."""
        super().__init__(arm, gravity)
        self._tensors = np.array([body.inertia.tensor for body in arm.bodies])
        self._m = self._kinematics.masses[:, None, None]
        turns = self._kinematics.turns.astype(float)
        size = len(turns)
        # Rows j, columns k of the tree joints, ordered from the base outwards.
        self._j_before_or_at_k = np.triu(np.ones((size, size)))[:, :, None]
        self._j_before_k = np.triu(np.ones((size, size)), 1)[:, :, None]
        self._turns = turns[:, None]

    def _in_chunks(self, term: Callable[..., Array], numbers_per_state: int,
                   *states: Array) -> Array:
        """Compute a term a chunk of states at a time, so that its arrays stay small."""
        size = max(1, CHUNK_NUMBERS // numbers_per_state)
        if len(states[0]) <= size:
            return term(*states)
        return np.concatenate([term(*(state[start:start + size] for state in states))
                               for start in range(0, len(states[0]), size)])

    def _jacobians(self, q: Array) -> _Jacobians:
        poses = self._kinematics.poses(self._kinematics.tree_positions(q))
        v, w = self._kinematics.jacobians(poses, poses.com)
        return _Jacobians(poses=poses, v=v, w=w)

    def _angular_momenta(self, J: _Jacobians) -> Array:
        """Return R I R' J_w, shape (N, bodies, tree joints, 3)."""
        R = J.poses.rotation
        return J.w @ (R @ self._tensors @ np.swapaxes(R, -1, -2))

    def _mass_matrix(self, q: Array) -> Array:
        bodies = len(self.arm.bodies)
        return self._in_chunks(self._mass_matrix_at, 3 * bodies * bodies, q)

    def _mass_matrix_at(self, q: Array) -> Array:
        J = self._jacobians(q)
        D = _sum_of_products(self._m * J.v, J.v) + _sum_of_products(self._angular_momenta(J), J.w)
        return self._project(D)

    def _coriolis_matrix(self, q: Array, v: Array) -> Array:
        bodies = len(self.arm.bodies)
        return self._in_chunks(self._coriolis_matrix_at, 3 * bodies**3, q, v)

    def _coriolis_matrix_at(self, q: Array, v: Array) -> Array:
        dD = self._mass_derivatives(q)  # dD[n, i, j, k] = d d_ij / d q_k
        # Swapping the axes puts each derivative of eq. 6 at [n, k, j, i].
        c = 0.5 * (dD + np.swapaxes(dD, 2, 3) - np.transpose(dD, (0, 3, 2, 1)))
        tree_v = v @ self.arm.projection.T
        return self._project((c @ tree_v[:, None, :, None])[..., 0])

    def _mass_derivatives(self, q: Array) -> Array:
        J = self._jacobians(q)
        b = J.poses.axis[:, None]  # (N, 1, tree joints, 3)
        moved = self.arm.moved_by[:, :, None, None]
        # dJ_v[.., j, k] = d J_v,j / d q_k: b_j x J_v,k where j is before or at k, and symmetric.
        swing = (moved * self._turns[:, None] * self._j_before_or_at_k) * cross(
            b[:, :, :, None], J.v[:, :, None])
        at_k = np.eye(len(self._turns))[:, :, None]
        dJ_v = swing + np.swapaxes((1.0 - at_k) * swing, 2, 3)
        # dJ_w[.., j, k] in the body's axes: - b_k x b_j where k is after j.
        dJ_w = self._j_before_k * cross(J.w[:, :, :, None], J.w[:, :, None])
        half = (_sum_of_derivative_products(dJ_v, self._m * J.v)
                + _sum_of_derivative_products(dJ_w, self._angular_momenta(J)))
        return half + np.swapaxes(half, 1, 2)

    def _gravity(self, q: Array) -> Array:
        J_v = self._jacobians(q).v
        weights = self._kinematics.masses[:, None] * self._gravity_vector
        return -np.einsum('bx,nbkx->nk', weights, J_v) @ self.arm.projection

    def _potential_energy(self, q: Array) -> Array:
        return self._kinematics.potential_energy(q, self._gravity_vector)

    def _project(self, tree: Array) -> Array:
        P = self.arm.projection
        return P.T @ tree @ P


def _sum_of_products(left: Array, right: Array) -> Array:
    """Return sum over bodies of left_i . right_j; (N, bodies, n, 3) twice gives (N, n, n)."""
    # One product along bodies and axes: a matrix for each body would take n times the memory.
    return _in_one_row(left) @ np.swapaxes(_in_one_row(right), -1, -2)


def _in_one_row(vectors: Array) -> Array:
    """Return (N, bodies, n, 3) as (N, n, bodies * 3)."""
    count, bodies, size, _ = vectors.shape
    return np.swapaxes(vectors, 1, 2).reshape(count, size, 3 * bodies)


def _sum_of_derivative_products(derivative: Array, columns: Array) -> Array:
    """Return sum over bodies of derivative_ik . columns_j as [n, i, j, k]."""
    count, bodies, size, _, _ = derivative.shape
    flat = derivative.reshape(count, bodies, size * size, 3)
    products = _sum_of_products(flat, columns)  # [n, (i, k), j]
    return np.swapaxes(products.reshape(count, size, size, size), 2, 3)
