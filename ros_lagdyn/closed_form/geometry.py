# SPDX-License-Identifier: Apache-2.0
"""Where the axes and masses of an arm are at q = 0: what the formulas are recognised from."""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, cos, hypot, sin

import numpy as np

from ros_lagdyn.arm import Arm
from ros_lagdyn.closed_form.formula import Formula
from ros_lagdyn.errors import AssumptionError
from ros_lagdyn.kinematics import Kinematics
from ros_lagdyn.rigid_body import Array

# Deviations enter torques directly, so they must be rounding only.
EXACT_WITHIN = 1e-12  # [rad], or of the arm's size
# A right angle written as 1.5708 is 3.7e-6 rad off. Where gravity and all mass lie in the plane of
# motion, torques change only by the square of it, so there such axes still count as parallel.
NEARLY_PARALLEL_WITHIN = 1e-5  # [rad]
RIGHT_ANGLE_HINT = ' (a right angle needs all its digits: 1.5707963267948966)'


@dataclass(frozen=True, kw_only=True)
class Recognised:
    """A formula, and how its coordinates follow from joint positions: sign * q + phase."""

    formula: Formula
    sign: tuple[float, ...]  # +1 or -1
    phase: tuple[float, ...]  # [rad]; 0 for prismatic joints


class Geometry:
    """All bodies of an arm at q = 0, in base axes."""

    def __init__(self, arm: Arm, gravity: Array) -> None:
        """Place every body of `arm`; `gravity` (3,) [m/s^2] in base axes."""
        self.arm = arm
        self.up = -gravity  # (3,) [m/s^2], potential energy is mass * up . position
        poses = Kinematics(arm).poses(arm.offset[None, :])
        self.axis = poses.axis[0]  # (bodies, 3)
        self.origin = poses.origin[0]  # (bodies, 3) [m]
        self.com = poses.com[0]  # (bodies, 3) [m]
        self.mass = np.array([body.inertia.mass for body in arm.bodies])
        tensors = np.array([body.inertia.tensor for body in arm.bodies])
        R = poses.rotation[0]
        self.tensor = R @ tensors @ np.swapaxes(R, -1, -2)  # (bodies, 3, 3), about the com
        massive = self.mass > 0.0
        # The size of the arm, against which lengths are judged to be zero.
        # Far from the root, positions are rounded more.
        points = np.vstack([self.origin, self.com[massive]])
        self.size = float(max(np.ptp(points, axis=0).max(), 0.01 * abs(points).max(), 1e-3))

    def require_perpendicular(self, stem: str, first: int, second: int) -> None:
        """Raise an AssumptionError unless the axes of two bodies are at right angles."""
        deviation = abs(float(np.arcsin(np.clip(self.axis[first] @ self.axis[second], -1, 1))))
        if deviation > EXACT_WITHIN:
            raise AssumptionError(
                mechanism=stem, part=self.joint_label(second),
                assumption=f'an axis at right angles to that of {self.joint_label(first)}',
                found=_off(deviation))

    def require_parallel(self, stem: str, first: int, second: int) -> None:
        """Raise an AssumptionError unless the axes of two bodies are parallel."""
        deviation = self.angle_between(first, second)
        if deviation > EXACT_WITHIN and not (
                deviation < NEARLY_PARALLEL_WITHIN and self._tilt_is_harmless(first, second)):
            raise AssumptionError(
                mechanism=stem, part=self.joint_label(second),
                assumption=f'an axis parallel to that of {self.joint_label(first)}',
                found=_off(deviation))

    def _tilt_is_harmless(self, first: int, second: int) -> bool:
        """Say whether a small tilt of the second axis changes nothing to first order.

        So it is where gravity, and all mass that the second joint moves, lie in the plane at
        right angles to the first axis: then the tilt lifts mass out of that plane only.
        """
        normal = self.axis[first]
        if abs(self.up @ normal) > EXACT_WITHIN * np.linalg.norm(self.up):
            return False
        for body in np.flatnonzero(self.arm.moved_by[:, second] * self.mass):
            out_of_plane = (self.com[body] - self.origin[second]) @ normal
            turned = self.tensor[body] @ normal
            products = abs(turned - (turned @ normal) * normal).max()
            moments = abs(self.tensor[body]).max()
            # The tilt itself moves what the URDF has in the plane by that much.
            if (abs(out_of_plane) > NEARLY_PARALLEL_WITHIN * self.size
                    or products > NEARLY_PARALLEL_WITHIN * moments):
                return False
        return True

    def require_zero_length(self, stem: str, part: str, assumption: str, length: float,
                            within: float = EXACT_WITHIN) -> None:
        """Raise an AssumptionError unless a length [m] is rounding only."""
        if abs(length) > within * self.size:
            raise AssumptionError(
                mechanism=stem, part=part, assumption=assumption, found=f'{length:.6g} m')

    def without_rounding(self, length: float) -> float:
        """Return 0 for a length [m] that is rounding only."""
        return 0.0 if abs(length) <= EXACT_WITHIN * self.size else length

    def angle_between(self, first: int, second: int) -> float:
        """Return the angle [rad] between two axes as lines, 0 to pi/2."""
        a, b = self.axis[first], self.axis[second]
        return atan2(float(np.linalg.norm(np.cross(a, b))), abs(float(a @ b)))

    def joint_label(self, body: int) -> str:
        """Return the joint that moves a body, for messages."""
        return f'joint "{self.arm.bodies[body].joint.name}"'

    def link_label(self, body: int) -> str:
        """Return a body by its link, for messages."""
        return f'link "{self.arm.bodies[body].name}"'


def _off(deviation: float) -> str:
    return f'{deviation:.3g} rad off' + (RIGHT_ANGLE_HINT if deviation < 1e-3 else '')


@dataclass(frozen=True, kw_only=True)
class Heading:
    """Length and direction of a vector in the plane."""

    length: float
    angle: float  # [rad]

    def components(self, vector: Array) -> tuple[float, float]:
        """Return the parts of a vector (2,) along this direction and to its left."""
        c, s = cos(self.angle), sin(self.angle)
        x, y = float(vector[0]), float(vector[1])
        return c * x + s * y, c * y - s * x


def heading(vector: Array) -> Heading:
    """Return length and direction of a vector (2,); direction 0 for the zero vector."""
    x, y = float(vector[0]), float(vector[1])
    return Heading(length=hypot(x, y), angle=atan2(y, x) if x or y else 0.0)
