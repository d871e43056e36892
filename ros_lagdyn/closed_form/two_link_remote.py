# SPDX-License-Identifier: Apache-2.0
r"""Planar elbow with the second motor at the base (000, example 5-3; 001, remotely driven link).

.. math::
    D(p) = \begin{bmatrix} m_1 (l_{c1}^2 + h_1^2) + m_2 l_1^2 + I_1 &
           m_2 l_1 l_{c2} \cos(p_2 - p_1) \\
           m_2 l_1 l_{c2} \cos(p_2 - p_1) & m_2 l_{c2}^2 + I_2 \end{bmatrix}

    c_{221} = -m_2 l_1 l_{c2} \sin(p_2 - p_1) = -c_{112}, \quad
    C = \begin{bmatrix} 0 & c_{221} \dot p_2 \\ c_{112} \dot p_1 & 0 \end{bmatrix}

    g_1 = (m_1 l_{c1} + m_2 l_1)\, g \cos p_1 - m_1 h_1\, g \sin p_1, \quad
    g_2 = m_2 l_{c2}\, g \cos p_2

The coordinates are the absolute angles that the two motors turn, so the forces are the motor
torques. There are centrifugal terms, but no Coriolis terms. In a URDF, a massless carrier link
that mimics joint 1 backwards keeps the second joint's zero level.
"""

from __future__ import annotations

from dataclasses import dataclass

from ros_lagdyn.closed_form.absolute_angles import AbsoluteAngles
from ros_lagdyn.closed_form.formula import Column, Matrix, Trig, Vector
from ros_lagdyn.closed_form.geometry import Geometry, Recognised, heading
from ros_lagdyn.coordinates import LinearCoordinates
from ros_lagdyn.errors import AssumptionError

# dp = J dq from the elbow's joint angles q to the motor angles p (000, eq. 5-49): p_1 = q_1,
# p_2 = q_1 + q_2. Virtual work (5-47) gives the torques: Q = J' tau*, which is eq. 5-48.
REMOTE_DRIVE = LinearCoordinates(((1.0, 0.0), (1.0, 1.0)), names=('p1', 'p2'))


@dataclass(frozen=True, kw_only=True)
class TwoLinkRemote:
    """The remotely driven elbow's formula in the book's symbols."""

    stem = 'two_link_remote'

    m_1: float  # [kg]
    l_1: float  # [m], joint 1 to joint 2
    l_c1: float  # [m], joint 1 to the centre of mass of link 1, along the line
    h_1: float  # [m], the same, across the line (to its left)
    I_1: float  # [kg m^2], about the centre of mass
    m_2: float  # [kg]
    l_c2: float  # [m], joint 2 to the centre of mass of link 2
    I_2: float  # [kg m^2]
    g: float  # [m/s^2], the part of gravity that lies in the plane of motion

    def mass_matrix(self, p: Vector, trig: Trig) -> Matrix:
        """Return D(p) (001)."""
        d_11 = (self.m_1 * (self.l_c1**2 + self.h_1**2) + self.m_2 * self.l_1**2 + self.I_1)
        d_12 = self.m_2 * self.l_1 * self.l_c2 * trig.cos(p[1] - p[0])
        d_22 = self.m_2 * self.l_c2**2 + self.I_2
        return (d_11, d_12), (d_12, d_22)

    def coriolis_matrix(self, p: Vector, v: Vector, trig: Trig) -> Matrix:
        """Return C from c_221 = -c_112 (001)."""
        c_112 = self.m_2 * self.l_1 * self.l_c2 * trig.sin(p[1] - p[0])
        return (0.0, -c_112 * v[1]), (c_112 * v[0], 0.0)

    def gravity(self, p: Vector, trig: Trig) -> Vector:
        """Return g_1, g_2 (001)."""
        g_1 = self.g * ((self.m_1 * self.l_c1 + self.m_2 * self.l_1) * trig.cos(p[0])
                        - self.m_1 * self.h_1 * trig.sin(p[0]))
        return g_1, self.g * self.m_2 * self.l_c2 * trig.cos(p[1])

    def potential_energy(self, p: Vector, trig: Trig) -> Column:
        """Return P (001)."""
        return self.g * ((self.m_1 * self.l_c1 + self.m_2 * self.l_1) * trig.sin(p[0])
                         + self.m_1 * self.h_1 * trig.cos(p[0])
                         + self.m_2 * self.l_c2 * trig.sin(p[1]))


def recognise(geometry: Geometry) -> Recognised:
    """Read the parameters off an arm of two massive links with absolute angles."""
    plane = AbsoluteAngles(geometry, TwoLinkRemote.stem)
    link_1, link_2 = plane.upper_arm, plane.forearm
    if link_1 is None or link_2 is None or len(plane.links) != 2:
        raise AssumptionError(
            mechanism=TwoLinkRemote.stem, part=plane.links[-1].label,
            assumption='one massive link on the base and one at its tip',
            found=f'{len(plane.links)} massive links, '
                  + ('one' if link_2 else 'none') + ' of them at the tip of another')
    line_1 = heading(link_2.on_1)
    l_c1, h_1 = line_1.components(link_1.on_1)
    line_2 = heading(link_2.on_2)
    formula = TwoLinkRemote(
        m_1=link_1.mass, l_1=line_1.length, l_c1=l_c1,
        h_1=geometry.without_rounding(h_1), I_1=link_1.inertia,
        m_2=link_2.mass, l_c2=line_2.length, I_2=link_2.inertia, g=plane.g,
    )
    return Recognised(
        formula=formula, sign=(1.0, plane.sign_2), phase=(line_1.angle, line_2.angle))
