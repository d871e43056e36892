# SPDX-License-Identifier: Apache-2.0
r"""Linearity in the parameters (001): tau = Y(q, v, a) theta, with 10 parameters per body.

.. math:: \theta_b = (m,\ m c_x,\ m c_y,\ m c_z,\ I_{xx},\ I_{xy},\ I_{yy},\ I_{xz},\ I_{yz},
    \ I_{zz})

with the inertia about the origin of the body's frame, in its axes. This is Pinocchio's order.

By the principle of virtual work, tau = sum over bodies of J' (force, moment) that moves the body.
In the axes of the body, with a_0 the acceleration of its origin minus gravity,

.. math::
    f = m\,a_0 + \dot\omega \times mc + \omega \times (\omega \times mc), \qquad
    n = mc \times a_0 + I \dot\omega + \omega \times I \omega

Each link fixed onto a moving one is part of that body.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.arm import BASE, Arm
from ros_lagdyn.dynamics import Dynamics, require_states
from ros_lagdyn.kinematics import Kinematics, Poses, cross
from ros_lagdyn.rigid_body import Array, apply

PARAMETERS_PER_BODY = 10


def parameter_vector(dynamics: Dynamics | Arm) -> Array:
    """Return theta, 10 numbers for each moving body in the order of arm.bodies; (10 bodies,).

    For each body: mass [kg], first moments m c_x, m c_y, m c_z [kg m], then I_xx, I_xy, I_yy,
    I_xz, I_yz, I_zz [kg m^2] about the origin of the body's frame, in its axes.
    """
    arm = dynamics if isinstance(dynamics, Arm) else dynamics.arm
    theta = []
    for body in arm.bodies:
        inertia = body.inertia
        I = inertia.about(np.zeros(3))  # noqa: E741
        theta += [inertia.mass, *(inertia.mass * inertia.com),
                  I[0, 0], I[0, 1], I[1, 1], I[0, 2], I[1, 2], I[2, 2]]
    return np.array(theta)


def regressor(dynamics: Dynamics, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
    """Return Y with Y @ parameter_vector(dynamics) = tau, for any arm.

    Args:
        dynamics: the arm and its gravity, in any coordinates; Y depends on kinematics only.
        q: positions, (n,) or (N, n).
        v: velocities.
        a: accelerations.

    Returns:
        Shape (n, 10 bodies) or (N, n, 10 bodies).
    """
    (q, v, a), batch = require_states(dynamics.joints, q=q, v=v, a=a)
    Y = dynamics._regressor(q, v, a)
    return Y if batch else Y[0]


def tree_regressor(kinematics: Kinematics, gravity: Array, q: Array, v: Array, a: Array) -> Array:
    """Return Y in joint coordinates, for checked states (N, n); shape (N, n, 10 bodies)."""
    arm = kinematics.arm
    poses = kinematics.poses(kinematics.tree_positions(q))
    J_v, J_w = kinematics.jacobians(poses, poses.origin)
    w, w_rate, a_0 = _body_motion(kinematics, poses, v, a, gravity)
    into_body = np.swapaxes(poses.rotation, -1, -2)
    a_0, w, w_rate = (apply(into_body, vector) for vector in (a_0, w, w_rate))
    # Rows of the wrench (f, n) per parameter, in body axes: (N, bodies, 6, 10).
    wrench = np.zeros((*w.shape[:2], 6, PARAMETERS_PER_BODY))
    wrench[..., :3, 0] = a_0
    wrench[..., :3, 1:4] = _skew(w_rate) + _skew(w) @ _skew(w)
    wrench[..., 3:, 1:4] = -_skew(a_0)
    wrench[..., 3:, 4:] = _times_inertia(w_rate) + _skew(w) @ _times_inertia(w)
    # J' in body axes: (N, bodies, tree joints, 6).
    J = np.concatenate([J_v @ poses.rotation, J_w @ poses.rotation], axis=-1)
    Y = np.moveaxis(J @ wrench, 1, 2)  # (N, tree joints, bodies, 10)
    return arm.projection.T @ Y.reshape(*Y.shape[:2], -1)


def _body_motion(kinematics: Kinematics, poses: Poses, v: Array, a: Array,
                 gravity: Array) -> tuple[Array, Array, Array]:
    """Return w, dw/dt and the acceleration of the origin minus gravity; each (N, bodies, 3)."""
    arm = kinematics.arm
    tree_v, tree_a = v @ arm.projection.T, a @ arm.projection.T
    w, w_rate, a_0 = (np.zeros_like(poses.origin) for _ in range(3))
    for index, body in enumerate(arm.bodies):
        b = poses.axis[:, index]
        rate, rate_of_rate = tree_v[:, index, None] * b, tree_a[:, index, None] * b
        if body.parent == BASE:
            carried, carried_rate, start = np.zeros_like(b), np.zeros_like(b), -gravity
            arm_vector = np.zeros_like(b)
        else:
            carried, carried_rate = w[:, body.parent], w_rate[:, body.parent]
            start = a_0[:, body.parent]
            arm_vector = poses.origin[:, index] - poses.origin[:, body.parent]
        a_0[:, index] = (start + cross(carried_rate, arm_vector)
                         + cross(carried, cross(carried, arm_vector)))
        if kinematics.turns[index]:
            w[:, index] = carried + rate
            w_rate[:, index] = carried_rate + rate_of_rate + cross(carried, rate)
        else:
            w[:, index], w_rate[:, index] = carried, carried_rate
            a_0[:, index] += rate_of_rate + 2.0 * cross(carried, rate)
    return w, w_rate, a_0


def _skew(a: Array) -> Array:
    """Return [a] with [a] b = a x b; (..., 3) gives (..., 3, 3)."""
    x, y, z = np.moveaxis(a, -1, 0)
    zero = np.zeros_like(x)
    return np.stack([np.stack(row, -1) for row in (
        (zero, -z, y), (z, zero, -x), (-y, x, zero))], -2)


def _times_inertia(w: Array) -> Array:
    """Return L(w) with I w = L(w) (I_xx, I_xy, I_yy, I_xz, I_yz, I_zz); (..., 3, 6)."""
    x, y, z = np.moveaxis(w, -1, 0)
    zero = np.zeros_like(x)
    return np.stack([np.stack(row, -1) for row in (
        (x, y, zero, z, zero, zero), (zero, x, y, zero, z, zero), (zero, zero, zero, x, y, z),
    )], -2)
