# SPDX-License-Identifier: Apache-2.0
r"""Planar elbow arm (000, example 5-2; 001, planar elbow manipulator; 004).

.. math::
    \Theta_1 &= m_1 (l_{c1}^2 + h_1^2) + m_2 (l_1^2 + l_{c2}^2) + I_1 + I_2 \\
    \Theta_2 &= m_2 l_1 l_{c2}, \quad \Theta_3 = m_2 l_{c2}^2 + I_2, \quad
    \Theta_4 = m_1 l_{c1} + m_2 l_1, \quad \Theta_5 = m_2 l_{c2}, \quad \Theta_6 = m_1 h_1

    D &= \begin{bmatrix} \Theta_1 + 2\Theta_2 c_2 & \Theta_3 + \Theta_2 c_2 \\
         \Theta_3 + \Theta_2 c_2 & \Theta_3 \end{bmatrix}, \quad
    C = \begin{bmatrix} h \dot q_2 & h (\dot q_1 + \dot q_2) \\ -h \dot q_1 & 0 \end{bmatrix},
    \quad h = -\Theta_2 s_2

    g_1 &= \Theta_4\, g\, c_1 - \Theta_6\, g\, s_1 + \Theta_5\, g\, c_{12}, \quad
    g_2 = \Theta_5\, g\, c_{12}

The angle q_1 is that of link 1's line (from joint 1 to joint 2) above the horizontal; q_2 leads
from there to the line from joint 2 to the centre of mass of link 2. The documents put the centre
of mass of link 1 on its line; here it may lie h_1 beside it (Theta_6). Point masses at the tips
(004) are the case l_c = l, I = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ros_lagdyn.closed_form.formula import Column, Matrix, Trig, Vector
from ros_lagdyn.closed_form.geometry import Geometry, Recognised, heading
from ros_lagdyn.closed_form.planar import PlanarMechanism


@dataclass(frozen=True, kw_only=True)
class TwoLink:
    """The elbow's formula in the book's symbols."""

    stem = 'two_link'

    m_1: float  # [kg]
    l_1: float  # [m], joint 1 to joint 2
    l_c1: float  # [m], joint 1 to the centre of mass of link 1, along the line
    h_1: float  # [m], the same, across the line (to its left)
    I_1: float  # [kg m^2], about the centre of mass
    m_2: float  # [kg]
    l_c2: float  # [m], joint 2 to the centre of mass of link 2
    I_2: float  # [kg m^2]
    g: float  # [m/s^2], the part of gravity that lies in the plane of motion

    @cached_property
    def theta_1(self) -> float:
        """Inertia of the stretched arm without the couplings [kg m^2]."""
        return (self.m_1 * (self.l_c1**2 + self.h_1**2) + self.m_2 * (self.l_1**2 + self.l_c2**2)
                + self.I_1 + self.I_2)

    @cached_property
    def theta_2(self) -> float:
        """Coupling of the links [kg m^2]."""
        return self.m_2 * self.l_1 * self.l_c2

    @cached_property
    def theta_3(self) -> float:
        """Inertia of link 2 about joint 2 [kg m^2]."""
        return self.m_2 * self.l_c2**2 + self.I_2

    @cached_property
    def theta_4(self) -> float:
        """First moment about joint 1, along link 1 [kg m]."""
        return self.m_1 * self.l_c1 + self.m_2 * self.l_1

    @cached_property
    def theta_5(self) -> float:
        """First moment of link 2 about joint 2 [kg m]."""
        return self.m_2 * self.l_c2

    @cached_property
    def theta_6(self) -> float:
        """First moment about joint 1, across link 1 [kg m]; 0 in the documents."""
        return self.m_1 * self.h_1

    def mass_matrix(self, q: Vector, trig: Trig) -> Matrix:
        """Return D (000, eq. 5-43)."""
        coupling = self.theta_2 * trig.cos(q[1])
        d_12 = self.theta_3 + coupling
        return (self.theta_1 + coupling + coupling, d_12), (d_12, self.theta_3)

    def coriolis_matrix(self, q: Vector, v: Vector, trig: Trig) -> Matrix:
        """Return C from c_121 = c_221 = h, c_112 = -h (001)."""
        h = -self.theta_2 * trig.sin(q[1])
        return (h * v[1], h * (v[0] + v[1])), (-h * v[0], 0.0)

    def gravity(self, q: Vector, trig: Trig) -> Vector:
        """Return g_1, g_2 (001)."""
        g_2 = self.g * self.theta_5 * trig.cos(q[0] + q[1])
        g_1 = (self.g * self.theta_4 * trig.cos(q[0]) - self.g * self.theta_6 * trig.sin(q[0])
               + g_2)
        return g_1, g_2

    def potential_energy(self, q: Vector, trig: Trig) -> Column:
        """Return P (001)."""
        return self.g * (self.theta_4 * trig.sin(q[0]) + self.theta_6 * trig.cos(q[0])
                         + self.theta_5 * trig.sin(q[0] + q[1]))

    @property
    def parameters(self) -> Vector:
        """Theta of D a + C v + g = Y Theta: Theta_1 to 5 (001), and Theta_6 if it is not 0."""
        five = self.theta_1, self.theta_2, self.theta_3, self.theta_4, self.theta_5
        return five if self.h_1 == 0.0 else (*five, self.theta_6)

    def regressor(self, q: Vector, v: Vector, a: Vector, trig: Trig) -> Matrix:
        """Return Y (001, with the square of the second velocity where it prints the first)."""
        c_2, s_2 = trig.cos(q[1]), trig.sin(q[1])
        c_1, c_12 = self.g * trig.cos(q[0]), self.g * trig.cos(q[0] + q[1])
        y_12 = c_2 * (2.0 * a[0] + a[1]) - s_2 * (v[1] ** 2 + 2.0 * v[0] * v[1])
        y_22 = c_2 * a[0] + s_2 * v[0] ** 2
        row_1: Vector = (a[0], y_12, a[1], c_1, c_12)
        row_2: Vector = (0.0, y_22, a[0] + a[1], 0.0, c_12)
        if self.h_1 == 0.0:
            return row_1, row_2
        return (*row_1, -self.g * trig.sin(q[0])), (*row_2, 0.0)


def recognise(geometry: Geometry) -> Recognised:
    """Read the elbow's parameters off an arm of two parallel revolute joints."""
    planar = PlanarMechanism(geometry, TwoLink.stem)
    link_1, link_2 = planar.bodies
    # The signs of the joints: joint 1 turns about the normal of the plane by definition.
    sign_2 = link_2.turn_rates[1]
    line_1 = planar.between_joints(link_1, link_2)
    arm_1, arm_2 = planar.to_com(link_1), planar.to_com(link_2)
    direction_1 = heading(line_1)
    l_c1, h_1 = direction_1.components(arm_1)
    formula = TwoLink(
        m_1=link_1.mass, l_1=direction_1.length, l_c1=l_c1,
        h_1=geometry.without_rounding(h_1), I_1=link_1.inertia,
        m_2=link_2.mass, l_c2=heading(arm_2).length, I_2=link_2.inertia, g=planar.g,
    )
    return Recognised(
        formula=formula,
        sign=(1.0, sign_2),
        phase=(direction_1.angle, heading(arm_2).angle - direction_1.angle),
    )
