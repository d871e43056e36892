# SPDX-License-Identifier: Apache-2.0
r"""Spherical pendulum (003): a point mass on a rod, free to swing in every direction.

With azimuth phi and the angle theta from straight down:

.. math::
    M = \begin{bmatrix} J \sin^2\theta & 0 \\ 0 & J \end{bmatrix}, \quad
    C = J \sin\theta \cos\theta \begin{bmatrix} \dot\theta & \dot\phi \\ -\dot\phi & 0
        \end{bmatrix}, \quad J = m l^2 + I, \quad P = -m\,g\,l \cos\theta

I is the moment of a slender rod about its centre, 0 for the document's point mass. At the poles
theta = 0 and pi the mass matrix loses rank: no torque about the vertical accelerates phi.

"Down" is the direction of the rod's axis 1; gravity may point elsewhere: u_z is the part against
gravity along axis 1, u_x and u_y lie across it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2

import numpy as np

from ros_lagdyn.closed_form.formula import Column, Matrix, Trig, Vector
from ros_lagdyn.closed_form.geometry import EXACT_WITHIN, Geometry, Recognised
from ros_lagdyn.errors import AssumptionError


@dataclass(frozen=True, kw_only=True)
class SphericalPendulum:
    """The pendulum's formula in the book's symbols, coordinates (phi, theta)."""

    stem = 'spherical_pendulum'

    m: float  # [kg]
    l: float  # [m], pivot to the centre of mass  # noqa: E741
    I: float  # [kg m^2], across the rod, about the centre of mass  # noqa: E741
    u_x: float  # [m/s^2], against gravity, across axis 1 at phi = 0
    u_y: float
    u_z: float  # [m/s^2], against gravity, along axis 1

    def mass_matrix(self, q: Vector, trig: Trig) -> Matrix:
        """Return M."""
        J = self.m * self.l**2 + self.I
        return (J * trig.sin(q[1]) ** 2, 0.0), (0.0, J)

    def coriolis_matrix(self, q: Vector, v: Vector, trig: Trig) -> Matrix:
        """Return C."""
        J = self.m * self.l**2 + self.I
        h = J * trig.sin(q[1]) * trig.cos(q[1])
        return (h * v[1], h * v[0]), (-h * v[0], 0.0)

    def gravity(self, q: Vector, trig: Trig) -> Vector:
        """Return g = dP/dq; m g l sin(theta) in the second row where gravity is along axis 1."""
        c_phi, s_phi = trig.cos(q[0]), trig.sin(q[0])
        c_theta, s_theta = trig.cos(q[1]), trig.sin(q[1])
        k = self.m * self.l
        return (k * s_theta * (self.u_y * c_phi - self.u_x * s_phi),
                k * (c_theta * (self.u_x * c_phi + self.u_y * s_phi) + self.u_z * s_theta))

    def potential_energy(self, q: Vector, trig: Trig) -> Column:
        """Return P."""
        across = self.u_x * trig.cos(q[0]) + self.u_y * trig.sin(q[0])
        return self.m * self.l * (trig.sin(q[1]) * across - self.u_z * trig.cos(q[1]))


def recognise(geometry: Geometry) -> Recognised:
    """Read the parameters off a chain of two revolute joints at right angles."""
    stem = SphericalPendulum.stem
    geometry.require_perpendicular(stem, 0, 1)
    axis_1, axis_2 = geometry.axis
    if geometry.mass[0] > 0.0:
        raise AssumptionError(
            mechanism=stem, part=geometry.link_label(0), assumption='a massless first link',
            found=f'{geometry.mass[0]:.6g} kg')
    ahead = np.cross(axis_1, axis_2)  # where the rod swings at phi = 0
    offset = geometry.origin[1] - geometry.origin[0]
    geometry.require_zero_length(
        stem, geometry.joint_label(1), f'an axis that meets that of {geometry.joint_label(0)}',
        float(offset @ ahead))
    rod = geometry.com[1] - geometry.origin[1]
    label = geometry.link_label(1)
    geometry.require_zero_length(
        stem, label, 'a centre of mass in the plane through axis 1',
        float((offset + rod) @ axis_2))
    rod = rod - axis_2 * (rod @ axis_2)
    l = float(np.linalg.norm(rod))  # noqa: E741
    # Without a length, the slender axis itself is the rod.
    along = rod / l if l > EXACT_WITHIN * geometry.size else np.linalg.eigh(
        geometry.tensor[1])[1][:, 0]
    if abs(float(along @ axis_2)) > EXACT_WITHIN:
        raise AssumptionError(
            mechanism=stem, part=label,
            assumption=f'a rod at right angles to the axis of {geometry.joint_label(1)}',
            found=f'{abs(float(along @ axis_2)):.6g} rad off')
    # theta leads from -axis_1 towards `ahead`, which is how joint 2 turns: axis_2 x -axis_1.
    theta_0 = atan2(float(along @ ahead), -float(along @ axis_1))
    tensor = geometry.tensor[1]
    I = float(np.trace(tensor)) / 2.0  # noqa: E741
    slender = I * (np.eye(3) - np.outer(along, along))
    deviation = float(abs(tensor - slender).max())
    if deviation > EXACT_WITHIN * (float(geometry.mass[1]) * l**2 + I):
        raise AssumptionError(
            mechanism=stem, part=label,
            assumption='a point mass or slender rod, whose inertia about its line is 0',
            found=f'{deviation:.6g} kg m^2')
    formula = SphericalPendulum(
        m=float(geometry.mass[1]), l=l, I=I,
        u_x=float(geometry.up @ ahead), u_y=float(geometry.up @ np.cross(axis_1, ahead)),
        u_z=float(geometry.up @ axis_1),
    )
    return Recognised(formula=formula, sign=(1.0, 1.0), phase=(0.0, theta_0))
