# SPDX-License-Identifier: Apache-2.0
r"""What to draw of an arm: centres of mass, gravity torques, the inertia ellipsoid of its tool.

The ellipsoid is that of

.. math:: J_v\, M^{-1} J_v^T

with the Jacobian J_v of the tool's origin: its semi-axes are proportional to the square roots of
the eigenvalues. It holds every velocity that the tool can have with the same kinetic energy, so
where it is long the tool is easy to accelerate, and where it is thin it is heavy.

Everything is in the axes of the root link, in metres. Sizes follow the size of the arm.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi

import numpy as np
from numpy.typing import ArrayLike

from ros_lagdyn.arm import BASE, Arm
from ros_lagdyn.dynamics import LEAST_RECIPROCAL_CONDITION, Dynamics, require_states
from ros_lagdyn.errors import InvalidArgumentError
from ros_lagdyn.kinematics import Kinematics, Poses, cross
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.sampling import FREE_SLIDE, position_ranges, random_states
from ros_lagdyn.term_scales import TermScales

FULL_TURN_SHARE = 0.75  # of a turn: the arc of a joint whose gravity takes all of its effort
LEAST_SHARE = 0.01  # of the effort limit; less would be a dot that flickers with rounding

# Shares of the arm's size.
SPHERE = 0.12  # diameter of a sphere that holds all the mass
ARC_RADIUS = 0.1
STRAIGHT_LENGTH = 0.4  # of the arrow at a slide whose gravity takes all of its effort
HEAD_LENGTH = 0.04
HEAD_WIDTH = 0.035
LINE_WIDTH = 0.008
ELLIPSOID = 0.2  # longest semi-axis in a typical pose
LEAST_THICKNESS = 0.005  # semi-axis: an ellipsoid of a planar arm is flat, but can be seen

ARC_STEP = pi / 16.0  # [rad], between the points of an arc
LONGEST_SLIDE = 100.0  # [m]; limits beyond it are no limits of a machine
LEAST_SIZE = 1e-3  # [m], of an arm without any extent
POSES, SEED = 64, 3  # the poses that say what is typical


@dataclass(frozen=True, kw_only=True, eq=False)
class CentreOfMass:
    """Where the mass of a body acts."""

    body: int  # index in arm.bodies
    mass: float  # [kg], > 0
    position: Array  # (3,) [m]
    diameter: float  # [m], of a sphere whose volume is proportional to the mass


@dataclass(frozen=True, kw_only=True, eq=False)
class GravityArrow:
    """The torque or force g_i that holds a joint: it points the way in which the motor pushes.

    At a revolute joint it is an arc around the axis, counter-clockwise for g_i > 0, that starts
    at the link; at a prismatic joint a straight line along the axis.
    """

    joint: int  # index in arm.joints
    share: float  # g_i / effort limit, signed
    beyond_limit: bool  # the URDF sets an effort limit, and |g_i| is above it
    shaft: Array  # (points, 3) [m], from the start to the head
    head: Array  # (2, 3) [m], base and tip of the arrow head
    line_width: float  # [m]
    head_width: float  # [m]
    head_length: float  # [m]


@dataclass(frozen=True, kw_only=True, eq=False)
class Ellipsoid:
    """The inertia ellipsoid at the tool: long where the tool is easy to accelerate."""

    centre: Array  # (3,) [m], the tool's origin
    semi_axes: Array  # (3,) [m], longest first, > 0
    rotation: Array  # (3, 3), right-handed; its columns are the directions of the semi-axes

    @property
    def diameters(self) -> Array:
        """Twice the semi-axes [m]; shape (3,)."""
        return 2.0 * self.semi_axes

    @property
    def quaternion(self) -> Array:
        """The rotation as a unit quaternion x, y, z, w; shape (4,)."""
        return quaternion_from_rotation(self.rotation)


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawing:
    """An arm in one pose."""

    centres_of_mass: tuple[CentreOfMass, ...]  # one for each body with mass, always
    gravity_arrows: tuple[GravityArrow | None, ...]  # by joint; None for (almost) no torque
    ellipsoid: Ellipsoid | None  # None where M is singular or the tool cannot move


class ArmDrawer:
    """Draws one arm, with the gravity and the masses that it has now.

    Attributes:
        size: the longest way through the arm [m], see arm_size().
        ellipsoid_scale: semi-axis per square root of an eigenvalue [m kg^0.5]; constant, so that
            ellipsoids of different poses can be compared.
    """

    def __init__(self, dynamics: Dynamics, tool_frame: str) -> None:
        """Take an arm, of any engine, and the link at whose origin the ellipsoid stands.

        Raises:
            UnknownNameError: no such link.
            InvalidArgumentError: the dynamics are in other coordinates than joint positions.
        """
        if not dynamics.in_joint_coordinates:
            raise InvalidArgumentError(
                f'an arm is drawn from its joint positions, not from {", ".join(dynamics.joints)}')
        arm = dynamics.arm
        self.size = arm_size(arm)
        self._dynamics = dynamics
        self._kinematics = Kinematics(arm)
        self._tool_frame = tool_frame
        self._tool = arm.frame(tool_frame)

        masses = self._kinematics.masses
        self._heavy = [index for index, mass in enumerate(masses) if mass > 0.0]
        self._diameters = SPHERE * self.size * np.cbrt(masses / max(masses.sum(), 1e-300))

        joints = arm.independent_joints
        tree_joints = [body.joint.name for body in arm.bodies]
        self._bodies = [tree_joints.index(name) for name in arm.joints]
        limits = np.array([joint.limit.effort for joint in joints])
        self._limited = (limits > 0.0) & (limits < inf)
        self._efforts = np.where(self._limited, limits, TermScales(dynamics).G)
        self._starts = [_start_of_arc(arm, index, self.size) for index in self._bodies]

        _, roots, regular = self._tool_axes(random_states(arm, POSES, SEED)[0])
        typical = float(np.median(roots[regular, 0])) if regular.any() else 0.0
        self.ellipsoid_scale = ELLIPSOID * self.size / typical if typical > 0.0 else 0.0

    def draw(self, q: ArrayLike, g: ArrayLike) -> Drawing:
        """Return the drawing of one pose.

        Args:
            q: positions of the independent joints (n,).
            g: gravity torques at q (n,) [Nm, N], positive as the motors that hold the arm.

        Raises:
            InvalidArgumentError: not n finite numbers each.
        """
        (positions, torques), batch = require_states(self._dynamics.joints, q=q, g=g)
        if batch:
            raise InvalidArgumentError('one pose is drawn at a time, got a batch')
        poses = self._kinematics.poses(self._kinematics.tree_positions(positions))
        return Drawing(
            centres_of_mass=tuple(
                CentreOfMass(
                    body=index,
                    mass=float(self._kinematics.masses[index]),
                    position=poses.com[0, index],
                    diameter=float(self._diameters[index]),
                )
                for index in self._heavy),
            gravity_arrows=tuple(
                self._gravity_arrow(poses, joint, float(torque))
                for joint, torque in enumerate(torques[0])),
            ellipsoid=self._ellipsoid(poses, positions),
        )

    def _gravity_arrow(self, poses: Poses, joint: int, torque: float) -> GravityArrow | None:
        effort, body = float(self._efforts[joint]), self._bodies[joint]
        # Compared before dividing: without gravity and limit both are 0, and a limit may be tiny.
        if effort == 0.0 or abs(torque) < LEAST_SHARE * effort:
            return None
        with np.errstate(over='ignore'):
            share = float(np.divide(torque, effort))
        shown = float(np.clip(share, -1.0, 1.0))
        origin, axis = poses.origin[0, body], poses.axis[0, body]
        if self._kinematics.turns[body]:
            angle = FULL_TURN_SHARE * 2.0 * pi * shown
            head = min(HEAD_LENGTH / ARC_RADIUS, abs(angle) / 2.0)
            steps = 2 + int(abs(angle) / ARC_STEP)
            angles = np.linspace(0.0, angle - np.sign(angle) * head, steps)
            x = ARC_RADIUS * self.size * (poses.rotation[0, body] @ self._starts[joint])
            y = cross(axis, x)
            angles = np.append(angles, angle)[:, None]
            points = origin + np.cos(angles) * x + np.sin(angles) * y
        else:
            length = STRAIGHT_LENGTH * shown
            head = min(HEAD_LENGTH, abs(length) / 2.0)
            ways = np.array([0.0, length - np.sign(length) * head, length])
            points = origin + self.size * ways[:, None] * axis
        head_length = float(np.linalg.norm(points[-1] - points[-2]))
        return GravityArrow(
            joint=joint,
            share=share,
            beyond_limit=bool(self._limited[joint]) and abs(share) > 1.0,
            shaft=points[:-1],
            head=points[-2:],
            line_width=LINE_WIDTH * self.size,
            head_width=min(HEAD_WIDTH * self.size, 2.0 * head_length),
            head_length=head_length,
        )

    def _ellipsoid(self, poses: Poses, q: Array) -> Ellipsoid | None:
        directions, roots, regular = self._tool_axes(q)
        semi_axes = self.ellipsoid_scale * roots[0]
        thickness = LEAST_THICKNESS * self.size
        if not regular[0] or not semi_axes[0] > thickness:
            return None
        rotation = directions[0]
        if np.linalg.det(rotation) < 0.0:
            rotation[:, 2] *= -1.0
        centre = self._tool.placement.translation
        if self._tool.body != BASE:
            body = self._tool.body
            centre = poses.origin[0, body] + poses.rotation[0, body] @ centre
        return Ellipsoid(
            centre=centre, semi_axes=np.maximum(semi_axes, thickness), rotation=rotation)

    def _tool_axes(self, q: Array) -> tuple[Array, Array, Array]:
        """Return eigenvectors and roots of eigenvalues of J_v M^-1 J_v' for positions (N, n).

        Returns:
            Directions as columns (N, 3, 3), roots (N, 3) [kg^-0.5] with the largest first, and
            where M is regular (N,); elsewhere the others mean nothing.
        """
        M = self._dynamics.mass_matrix(q)
        regular = self._dynamics.reciprocal_condition(M) >= LEAST_RECIPROCAL_CONDITION
        M = np.where(regular[:, None, None], M, np.eye(M.shape[-1]))
        J_v = self._dynamics.frame_jacobian(q, self._tool_frame)[:, :3]
        # With M = L L', J_v M^-1 J_v' = A' A for A = L^-1 J_v': the singular values of A are the
        # roots, with twice the digits that roots of eigenvalues would have.
        A = np.linalg.solve(np.linalg.cholesky(M), np.swapaxes(J_v, 1, 2))
        _, values, directions = np.linalg.svd(A, full_matrices=True)
        roots = np.zeros((len(q), 3))
        roots[:, :values.shape[1]] = values
        return np.swapaxes(directions, 1, 2), roots, np.asarray(regular)


def arm_size(arm: Arm) -> float:
    """Return the longest way [m] from a joint on the base to a link's origin or to mass.

    It is the sum of all segments, with slides drawn out to their limits. How high the first
    joint stands above the root does not count.
    """
    lower, upper = position_ranges(arm)
    farthest = np.maximum(abs(lower), abs(upper))
    farthest = np.where(farthest > LONGEST_SLIDE, FREE_SLIDE, farthest)
    strokes = abs(arm.projection) @ farthest + abs(arm.offset)
    ways: list[float] = []  # from the first joint to each body's frame, with its slide drawn out
    size = LEAST_SIZE
    for body, stroke in zip(arm.bodies, strokes, strict=True):
        way = 0.0 if body.joint.turns else float(stroke)
        if body.parent != BASE:
            way += ways[body.parent] + float(np.linalg.norm(body.placement.translation))
        ways.append(way)
        inertia = body.inertia
        if inertia.mass > 0.0:
            moment = max(float(np.linalg.eigvalsh(inertia.tensor)[-1]), 0.0)
            gyration = (moment / inertia.mass) ** 0.5
            size = max(size, way + float(np.linalg.norm(inertia.com)) + gyration)
    for frame in arm.frames.values():
        if frame.body != BASE:
            size = max(size, ways[frame.body] + float(np.linalg.norm(frame.placement.translation)))
    return size


def quaternion_from_rotation(R: Array) -> Array:
    """Return the unit quaternion x, y, z, w (4,), w >= 0, of a rotation matrix (3, 3)."""
    # Each row is 4 times one component times the whole quaternion; the longest row has lost no
    # digits, whatever the rotation.
    xx, yy, zz = R[0, 0], R[1, 1], R[2, 2]
    xy, xz, yz = R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1]
    xw, yw, zw = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    rows = np.array([
        [1.0 + xx - yy - zz, xy, xz, xw],
        [xy, 1.0 - xx + yy - zz, yz, yw],
        [xz, yz, 1.0 - xx - yy + zz, zw],
        [xw, yw, zw, 1.0 + xx + yy + zz],
    ])
    row = rows[int(np.argmax(np.diagonal(rows)))]
    if row[3] < 0.0:
        row = -row
    return np.asarray(row / np.linalg.norm(row), dtype=float)


def _start_of_arc(arm: Arm, index: int, size: float) -> Array:
    """Return the unit vector (3,), across a joint's axis, in its body's axes, where arcs start.

    It points along the link, to its centre of mass; where that is on the axis, anywhere.
    """
    body = arm.bodies[index]
    axis = body.joint.axis
    across = body.inertia.com - (body.inertia.com @ axis) * axis
    if np.linalg.norm(across) < 1e-3 * size:
        across = cross(axis, np.eye(3)[int(np.argmin(abs(axis)))])
    return np.asarray(across / np.linalg.norm(across), dtype=float)
