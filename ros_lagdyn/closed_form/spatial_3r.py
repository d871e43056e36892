# SPDX-License-Identifier: Apache-2.0
r"""Spatial elbow arm of three revolute joints (003, last example).

Joint 1 turns the arm about a column, joints 2 and 3 are parallel and at right angles to it. In
each link's frame x is the axis of joints 2 and 3, y runs along the link, z completes them.
Positive theta_2 and theta_3 lower the arm, as the signs of the document's gravity vector say.

.. math::
    M_{11} &= I_{y2} s_2^2 + I_{y3} s_{23}^2 + I_{z1} + I_{z2} c_2^2 + I_{z3} c_{23}^2
              + m_2 r_1^2 c_2^2 + m_3 (l_1 c_2 + r_2 c_{23})^2 \\
    M_{22} &= I_{x2} + I_{x3} + m_3 l_1^2 + m_2 r_1^2 + m_3 r_2^2 + 2 m_3 l_1 r_2 c_3 \\
    M_{23} &= I_{x3} + m_3 r_2^2 + m_3 l_1 r_2 c_3, \quad M_{33} = I_{x3} + m_3 r_2^2

The document has gravity along the column. Here it may point anywhere: u_z is the part against
gravity along the column, u_x and u_y lie across it, and k_x, k_y is the first moment of link 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2

import numpy as np

from ros_lagdyn.closed_form.formula import Column, Matrix, Trig, Vector
from ros_lagdyn.closed_form.geometry import (
    EXACT_WITHIN,
    Geometry,
    Recognised,
)
from ros_lagdyn.errors import AssumptionError
from ros_lagdyn.rigid_body import Array


@dataclass(frozen=True, kw_only=True)
class Spatial3R:
    """The spatial elbow's formula in the book's symbols."""

    stem = 'spatial_3r'

    I_z1: float  # [kg m^2], of link 1 about the column
    m_2: float  # [kg]
    l_1: float  # [m], joint 2 to joint 3
    r_1: float  # [m], joint 2 to the centre of mass of link 2
    I_x2: float
    I_y2: float
    I_z2: float
    m_3: float
    r_2: float  # [m], joint 3 to the centre of mass of link 3
    I_x3: float
    I_y3: float
    I_z3: float
    k_x: float  # [kg m], first moment of link 1 about the column at theta_1 = 0
    k_y: float
    u_x: float  # [m/s^2], against gravity, across the column: along the arm at theta_1 = 0
    u_y: float  # and to its left
    u_z: float  # [m/s^2], against gravity, along the column

    def mass_matrix(self, q: Vector, trig: Trig) -> Matrix:
        """Return M (003)."""
        c_2, s_2, c_3 = trig.cos(q[1]), trig.sin(q[1]), trig.cos(q[2])
        c_23, s_23 = trig.cos(q[1] + q[2]), trig.sin(q[1] + q[2])
        M_11 = (self.I_y2 * s_2**2 + self.I_y3 * s_23**2 + self.I_z1
                + self.I_z2 * c_2**2 + self.I_z3 * c_23**2
                + self.m_2 * self.r_1**2 * c_2**2
                + self.m_3 * (self.l_1 * c_2 + self.r_2 * c_23) ** 2)
        M_33 = self.I_x3 + self.m_3 * self.r_2**2
        M_23 = M_33 + self.m_3 * self.l_1 * self.r_2 * c_3
        M_22 = (self.I_x2 + self.I_x3 + self.m_3 * self.l_1**2 + self.m_2 * self.r_1**2
                + self.m_3 * self.r_2**2 + 2.0 * self.m_3 * self.l_1 * self.r_2 * c_3)
        return (M_11, 0.0, 0.0), (0.0, M_22, M_23), (0.0, M_23, M_33)

    def coriolis_matrix(self, q: Vector, v: Vector, trig: Trig) -> Matrix:
        """Return C_ij = sum_k Gamma_ijk v_k (003)."""
        c_2, s_2, s_3 = trig.cos(q[1]), trig.sin(q[1]), trig.sin(q[2])
        c_23, s_23 = trig.cos(q[1] + q[2]), trig.sin(q[1] + q[2])
        reach = self.l_1 * c_2 + self.r_2 * c_23
        G_112 = ((self.I_y2 - self.I_z2 - self.m_2 * self.r_1**2) * c_2 * s_2
                 + (self.I_y3 - self.I_z3) * c_23 * s_23
                 - self.m_3 * reach * (self.l_1 * s_2 + self.r_2 * s_23))
        G_113 = (self.I_y3 - self.I_z3) * c_23 * s_23 - self.m_3 * self.r_2 * s_23 * reach
        G_121, G_131 = G_112, G_113
        G_211, G_311 = -G_112, -G_113
        G_223 = -self.l_1 * self.m_3 * self.r_2 * s_3
        G_232, G_233, G_322 = G_223, G_223, -G_223
        return (
            (G_112 * v[1] + G_113 * v[2], G_121 * v[0], G_131 * v[0]),
            (G_211 * v[0], G_223 * v[2], G_232 * v[1] + G_233 * v[2]),
            (G_311 * v[0], G_322 * v[1], 0.0),
        )

    def gravity(self, q: Vector, trig: Trig) -> Vector:
        """Return g; its u_z part is that of 003, with the g that its second row misses."""
        c_1, s_1, c_2, s_2 = trig.cos(q[0]), trig.sin(q[0]), trig.cos(q[1]), trig.sin(q[1])
        c_23, s_23 = trig.cos(q[1] + q[2]), trig.sin(q[1] + q[2])
        k_2, k_3 = self.m_2 * self.r_1 + self.m_3 * self.l_1, self.m_3 * self.r_2
        along, across = self.u_x * c_1 + self.u_y * s_1, self.u_y * c_1 - self.u_x * s_1
        g_3 = -k_3 * (self.u_z * c_23 + along * s_23)
        g_2 = -k_2 * (self.u_z * c_2 + along * s_2) + g_3
        g_1 = (self.k_x + k_2 * c_2 + k_3 * c_23) * across - self.k_y * along
        return g_1, g_2, g_3

    def potential_energy(self, q: Vector, trig: Trig) -> Column:
        """Return P = sum m_i g h_i (003), for gravity of any direction."""
        c_1, s_1, c_2, s_2 = trig.cos(q[0]), trig.sin(q[0]), trig.cos(q[1]), trig.sin(q[1])
        c_23, s_23 = trig.cos(q[1] + q[2]), trig.sin(q[1] + q[2])
        k_2, k_3 = self.m_2 * self.r_1 + self.m_3 * self.l_1, self.m_3 * self.r_2
        along, across = self.u_x * c_1 + self.u_y * s_1, self.u_y * c_1 - self.u_x * s_1
        return ((self.k_x + k_2 * c_2 + k_3 * c_23) * along + self.k_y * across
                - self.u_z * (k_2 * s_2 + k_3 * s_23))


def recognise(geometry: Geometry) -> Recognised:
    """Read the parameters off a chain of three revolute joints."""
    stem = Spatial3R.stem
    geometry.require_perpendicular(stem, 0, 1)
    geometry.require_parallel(stem, 1, 2)
    column, hinge = geometry.axis[0], geometry.axis[1]
    ahead = np.cross(hinge, column)  # with hinge and column a right-handed frame at q = 0
    shoulder, elbow = geometry.origin[1], geometry.origin[2]
    offset = shoulder - geometry.origin[0]
    geometry.require_zero_length(
        stem, geometry.joint_label(1), 'an axis that meets the column', float(offset @ ahead))
    # Positive angles lower the arm, as joint 2 does: hinge x ahead = -column.
    sign_3 = float(np.sign(hinge @ geometry.axis[2]))
    line = float((elbow - shoulder) @ ahead), float((elbow - shoulder) @ column)
    l_1 = float(np.hypot(*line))
    com_2 = _in_plane_of_column(geometry, 1, hinge, ahead)
    com_3 = _in_plane_of_column(geometry, 2, hinge, ahead)
    # Without a line between the joints, link 2's centre of mass gives it, or its inertia.
    down_2 = _direction(geometry, 1, line if geometry.without_rounding(l_1) else com_2)
    along_2 = ahead * np.cos(down_2) - column * np.sin(down_2)
    r_1 = com_2[0] * np.cos(down_2) - com_2[1] * np.sin(down_2)
    geometry.require_zero_length(
        stem, geometry.link_label(1), 'a centre of mass on the line from joint 2 to joint 3',
        com_2[0] * np.sin(down_2) + com_2[1] * np.cos(down_2))
    r_2 = float(np.hypot(*com_3))
    down_3 = _direction(geometry, 2, com_3)
    along_3 = ahead * np.cos(down_3) - column * np.sin(down_3)
    I_x2, I_y2, I_z2 = _principal_moments(geometry, 1, hinge, along_2)
    I_x3, I_y3, I_z3 = _principal_moments(geometry, 2, hinge, along_3)
    lever = geometry.com[0] - geometry.origin[0]
    lever = lever - column * (lever @ column)
    left = np.cross(column, ahead)
    formula = Spatial3R(
        I_z1=float(column @ geometry.tensor[0] @ column + geometry.mass[0] * lever @ lever),
        m_2=float(geometry.mass[1]), l_1=l_1, r_1=float(r_1), I_x2=I_x2, I_y2=I_y2, I_z2=I_z2,
        m_3=float(geometry.mass[2]), r_2=r_2, I_x3=I_x3, I_y3=I_y3, I_z3=I_z3,
        k_x=float(geometry.mass[0] * lever @ ahead), k_y=float(geometry.mass[0] * lever @ left),
        u_x=float(geometry.up @ ahead), u_y=float(geometry.up @ left),
        u_z=float(geometry.up @ column),
    )
    return Recognised(
        formula=formula, sign=(1.0, 1.0, sign_3), phase=(0.0, down_2, down_3 - down_2))


def _in_plane_of_column(geometry: Geometry, body: int, hinge: Array, ahead: Array) -> tuple[
        float, float]:
    """Return where a centre of mass lies from its joint: ahead and along the column [m]."""
    if geometry.mass[body] == 0.0:
        return 0.0, 0.0
    aside = float((geometry.com[body] - geometry.origin[0]) @ hinge)
    geometry.require_zero_length(
        Spatial3R.stem, geometry.link_label(body),
        f'a centre of mass in the plane through the axis of {geometry.joint_label(0)} at right '
        f'angles to that of {geometry.joint_label(1)}', aside)
    lever = geometry.com[body] - geometry.origin[body]
    return float(lever @ ahead), float(lever @ geometry.axis[0])


def _direction(geometry: Geometry, body: int, line: tuple[float, float]) -> float:
    """Return the angle [rad] by which a link's line lies below the horizontal.

    Where the line (ahead, up) has no length, it is a principal axis of the link's inertia.
    """
    if geometry.without_rounding(float(np.hypot(*line))):
        return atan2(-line[1], line[0])
    up = geometry.axis[0]
    ahead = np.cross(geometry.axis[1], up)
    tensor = geometry.tensor[body]
    I_ahead, I_up, product = ahead @ tensor @ ahead, up @ tensor @ up, ahead @ tensor @ up
    return -0.5 * atan2(2.0 * float(product), float(I_ahead - I_up))


def _principal_moments(geometry: Geometry, body: int, x: Array, y: Array) -> tuple[
        float, float, float]:
    """Return I_x, I_y, I_z; raises AssumptionError where x, y, z are not principal axes."""
    z = np.cross(x, y)
    frame = np.array([x, y, z])
    tensor = frame @ geometry.tensor[body] @ frame.T
    # Products of inertia count against all that turns with the body, its mass included.
    scale = abs(tensor).max() + geometry.mass[body] * geometry.size**2
    for row, column, name in ((0, 1, 'I_xy'), (0, 2, 'I_xz'), (1, 2, 'I_yz')):
        if abs(tensor[row, column]) > EXACT_WITHIN * scale:
            raise AssumptionError(
                mechanism=Spatial3R.stem, part=geometry.link_label(body),
                assumption=f'principal axes along the link and its joint, {name} = 0',
                found=f'{tensor[row, column]:.6g} kg m^2')
    return float(tensor[0, 0]), float(tensor[1, 1]), float(tensor[2, 2])
