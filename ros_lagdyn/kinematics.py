# SPDX-License-Identifier: Apache-2.0
"""Poses and Jacobians of the bodies of an arm, for a batch of tree positions at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros_lagdyn.arm import BASE, Arm
from ros_lagdyn.rigid_body import Array, apply, skew


@dataclass(frozen=True, kw_only=True, eq=False)
class Poses:
    """Where everything is, in the axes of the base (root link), for N states."""

    rotation: Array  # (N, bodies, 3, 3)
    origin: Array  # (N, bodies, 3) [m], of the body frame; it lies on the axis of its joint
    axis: Array  # (N, bodies, 3), unit vector b_j of the joint that moves the body
    com: Array  # (N, bodies, 3) [m], centre of mass


class Kinematics:
    """Forward kinematics and geometric Jacobians of the tree, mimic joints not yet projected."""

    def __init__(self, arm: Arm) -> None:
        """Prepare the constant matrices of `arm`."""
        self.arm = arm
        self.turns = np.array([body.joint.turns for body in arm.bodies])
        self.masses = np.array([body.inertia.mass for body in arm.bodies])
        self._com = np.array([body.inertia.com for body in arm.bodies])
        self._axes = np.array([body.joint.axis for body in arm.bodies])
        # Rodrigues' formula for the joint rotation, joined with the constant placement:
        # R_0 Rot(axis, q) = R_0 (axis axis') + R_0 (1 - axis axis') cos q + R_0 [axis] sin q
        self._constant, self._cosine, self._sine = [], [], []
        for body in arm.bodies:
            R_0, b = body.placement.rotation, body.joint.axis
            along = np.outer(b, b)
            self._constant.append(R_0 @ along)
            self._cosine.append(R_0 @ (np.eye(3) - along))
            self._sine.append(R_0 @ skew(b))

    def tree_positions(self, q: Array) -> Array:
        """Return q_tree = P q + offset; shape (N, n) gives (N, tree joints)."""
        return q @ self.arm.projection.T + self.arm.offset

    def poses(self, q_tree: Array) -> Poses:
        """Return the poses of all bodies; `q_tree` has shape (N, tree joints)."""
        count, size = q_tree.shape
        cosine = np.cos(q_tree)[:, :, None, None]
        sine = np.sin(q_tree)[:, :, None, None]
        rotation = np.empty((count, size, 3, 3))
        origin = np.empty((count, size, 3))
        for index, body in enumerate(self.arm.bodies):
            if self.turns[index]:
                R = (self._constant[index] + self._cosine[index] * cosine[:, index]
                     + self._sine[index] * sine[:, index])
                p = body.placement.translation
            else:
                R = body.placement.rotation
                p = body.placement.translation + q_tree[:, index, None] * (R @ self._axes[index])
            if body.parent == BASE:
                rotation[:, index], origin[:, index] = R, p
            else:
                parent = rotation[:, body.parent]
                rotation[:, index] = parent @ R
                origin[:, index] = origin[:, body.parent] + apply(parent, p)
        return Poses(
            rotation=rotation,
            origin=origin,
            axis=apply(rotation, self._axes),
            com=origin + apply(rotation, self._com),
        )

    def potential_energy(self, q: Array, gravity: Array) -> Array:
        """Return U = -sum m g . r [J] of positions (N, n); zero at the root's origin; (N,)."""
        return -(self.poses(self.tree_positions(q)).com @ gravity) @ self.masses

    def jacobians(self, poses: Poses, points: Array) -> tuple[Array, Array]:
        """Return J_v and J_w of one point on each body (000, eq. 5-24 to 5-26).

        Column j is b_j x (point - o_j) and b_j for a revolute joint, b_j and 0 for a prismatic
        one, and 0 for a joint that does not move the body.

        Args:
            poses: of N states.
            points: (N, bodies, 3) [m], in base axes.

        Returns:
            J_v and J_w, each of shape (N, bodies, tree joints, 3): the column is the last axis.
        """
        b = poses.axis[:, None, :, :]
        arms = points[:, :, None, :] - poses.origin[:, None, :, :]
        turns = self.turns[:, None]
        moved = self.arm.moved_by[:, :, None]
        J_v = moved * np.where(turns, cross(b, arms), b)
        J_w = moved * np.where(turns, b, 0.0)
        return J_v, J_w

    def frame_jacobian(self, q: Array, frame: str) -> Array:
        """Return the Jacobian of a link's frame, independent joints; shape (N, 6, n).

        Rows are the linear velocity of the frame's origin, then the angular velocity, both in
        base axes.
        """
        fixed_on = self.arm.frame(frame)
        if fixed_on.body == BASE:
            return np.zeros((len(q), 6, len(self.arm.joints)))
        poses = self.poses(self.tree_positions(q))
        point = (poses.origin[:, fixed_on.body]
                 + apply(poses.rotation[:, fixed_on.body], fixed_on.placement.translation))
        J_v, J_w = self.jacobians(poses, np.broadcast_to(point[:, None], poses.origin.shape))
        columns = np.concatenate([J_v[:, fixed_on.body], J_w[:, fixed_on.body]], axis=-1)
        return np.swapaxes(columns, 1, 2) @ self.arm.projection

    def frame_rotation(self, q: Array, frame: str) -> Array:
        """Return the rotation of a link's frame in base axes; shape (N, 3, 3)."""
        fixed_on = self.arm.frame(frame)
        local = fixed_on.placement.rotation
        if fixed_on.body == BASE:
            return np.broadcast_to(local, (len(q), 3, 3))
        return self.poses(self.tree_positions(q)).rotation[:, fixed_on.body] @ local


def cross(a: Array, b: Array) -> Array:
    """Return a x b over the last axis; much faster than numpy.cross on small arrays."""
    result = np.empty(np.broadcast_shapes(a.shape, b.shape))
    a_x, a_y, a_z = a[..., 0], a[..., 1], a[..., 2]
    b_x, b_y, b_z = b[..., 0], b[..., 1], b[..., 2]
    result[..., 0] = a_y * b_z - a_z * b_y
    result[..., 1] = a_z * b_x - a_x * b_z
    result[..., 2] = a_x * b_y - a_y * b_x
    return result
