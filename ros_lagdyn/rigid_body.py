# SPDX-License-Identifier: Apache-2.0
"""Placements and inertias of rigid bodies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def skew(a: Array) -> Array:
    """Return the matrix [a] with [a] b = a x b; shape (3,) gives (3, 3)."""
    x, y, z = a
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def apply(matrix: Array, vector: Array) -> Array:
    """Return matrix times vector over the last axes; (..., m, n) and (..., n) give (..., m)."""
    return (matrix @ vector[..., None])[..., 0]


def rotation_from_rpy(roll: float, pitch: float, yaw: float) -> Array:
    """Return R = Rz(yaw) Ry(pitch) Rx(roll), angles in rad, as URDF defines it; shape (3, 3)."""
    cr, cp, cy = np.cos([roll, pitch, yaw])
    sr, sp, sy = np.sin([roll, pitch, yaw])
    return np.array([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ])


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """Pose of a frame in its parent frame: x_parent = rotation x_frame + translation."""

    rotation: Array  # (3, 3)
    translation: Array  # (3,) [m]

    @classmethod
    def identity(cls) -> Placement:
        """Return the pose of a frame that coincides with its parent."""
        return cls(rotation=np.eye(3), translation=np.zeros(3))

    def __matmul__(self, other: Placement) -> Placement:
        """Return the pose of `other`, given in this frame, in the parent of this frame."""
        return Placement(
            rotation=self.rotation @ other.rotation,
            translation=self.rotation @ other.translation + self.translation,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Inertia:
    """Mass, centre of mass and inertia tensor of a body, in the axes of one frame."""

    mass: float  # [kg]
    com: Array  # (3,) [m], from the frame's origin
    tensor: Array  # (3, 3) [kg m^2], about the centre of mass

    @classmethod
    def zero(cls) -> Inertia:
        """Return the inertia of a massless frame."""
        return cls(mass=0.0, com=np.zeros(3), tensor=np.zeros((3, 3)))

    def seen_from(self, placement: Placement) -> Inertia:
        """Return the same body in the parent frame, given the pose of this frame in it."""
        R = placement.rotation
        return Inertia(
            mass=self.mass,
            com=R @ self.com + placement.translation,
            tensor=R @ self.tensor @ R.T,
        )

    def __add__(self, other: Inertia) -> Inertia:
        """Return both bodies welded together (parallel-axis theorem); same frame required."""
        mass = self.mass + other.mass
        if mass == 0.0:
            return Inertia(mass=0.0, com=np.zeros(3), tensor=self.tensor + other.tensor)
        if self.mass == 0.0 or other.mass == 0.0:
            # The centre of mass of the only body with mass, to the last bit.
            com = other.com if self.mass == 0.0 else self.com
        else:
            com = (self.mass * self.com + other.mass * other.com) / mass
        return Inertia(mass=mass, com=com, tensor=self.about(com) + other.about(com))

    def about(self, point: Array) -> Array:
        """Return the inertia tensor about `point` (3,) [m], axes unchanged; shape (3, 3)."""
        d = skew(self.com - point)
        return self.tensor - self.mass * d @ d
