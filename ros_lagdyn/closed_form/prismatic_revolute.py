# SPDX-License-Identifier: Apache-2.0
r"""A slide that carries a revolute joint (001, the PR robot of the coupling analysis).

With theta_2 measured from the slide's direction, seen along the revolute axis:

.. math::
    D = \begin{bmatrix} m_1 + m_2 & -m_2 l_{c2} \kappa\, s_2 \\
        -m_2 l_{c2} \kappa\, s_2 & m_2 l_{c2}^2 + I_2 \end{bmatrix}, \quad
    C = \begin{bmatrix} 0 & -m_2 l_{c2} \kappa\, c_2 \dot\theta_2 \\ 0 & 0 \end{bmatrix}

    g_1 = (m_1 + m_2)\, u_s, \quad g_2 = m_2 l_{c2} (u_y c_2 - u_x s_2)

kappa is the sine of the angle between the slide and the revolute axis: 1 in the document, where
the arm is planar; 0 where the slide runs along the axis and nothing couples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros_lagdyn.closed_form.formula import Column, Matrix, Trig, Vector
from ros_lagdyn.closed_form.geometry import EXACT_WITHIN, Geometry, Recognised, heading


@dataclass(frozen=True, kw_only=True)
class PrismaticRevolute:
    """The PR robot's formula."""

    stem = 'prismatic_revolute'

    m_1: float  # [kg]
    m_2: float  # [kg]
    l_c2: float  # [m], joint 2 to the centre of mass of link 2
    I_2: float  # [kg m^2], about the revolute axis through the centre of mass
    kappa: float  # sine of the angle between slide and axis
    u_s: float  # [m/s^2], against gravity, along the slide
    u_x: float  # [m/s^2], across the axis, on the slide's side
    u_y: float  # [m/s^2], across both

    def mass_matrix(self, q: Vector, trig: Trig) -> Matrix:
        """Return D."""
        d_12 = -self.m_2 * self.l_c2 * self.kappa * trig.sin(q[1])
        return (self.m_1 + self.m_2, d_12), (d_12, self.m_2 * self.l_c2**2 + self.I_2)

    def coriolis_matrix(self, q: Vector, v: Vector, trig: Trig) -> Matrix:
        """Return C from c_221 = d d_12 / d q_2."""
        c_221 = -self.m_2 * self.l_c2 * self.kappa * trig.cos(q[1])
        return (0.0, c_221 * v[1]), (0.0, 0.0)

    def gravity(self, q: Vector, trig: Trig) -> Vector:
        """Return g."""
        return ((self.m_1 + self.m_2) * self.u_s,
                self.m_2 * self.l_c2 * (self.u_y * trig.cos(q[1]) - self.u_x * trig.sin(q[1])))

    def potential_energy(self, q: Vector, trig: Trig) -> Column:
        """Return P."""
        return ((self.m_1 + self.m_2) * self.u_s * q[0]
                + self.m_2 * self.l_c2 * (self.u_x * trig.cos(q[1]) + self.u_y * trig.sin(q[1])))


def recognise(geometry: Geometry) -> Recognised:
    """Read the parameters off a prismatic joint that carries a revolute one."""
    slide, axis = geometry.axis
    across = slide - axis * (slide @ axis)
    kappa = float(np.linalg.norm(across))
    if kappa <= EXACT_WITHIN:  # the slide runs along the axis: any direction across it serves
        kappa = 0.0
        across = np.cross(axis, np.eye(3)[np.argmin(abs(axis))])
    x = across / np.linalg.norm(across)
    plane = np.array([x, np.cross(axis, x)])
    link_2 = heading(plane @ (geometry.com[1] - geometry.origin[1]))
    u_x, u_y = plane @ geometry.up
    formula = PrismaticRevolute(
        m_1=float(geometry.mass[0]), m_2=float(geometry.mass[1]), l_c2=link_2.length,
        I_2=float(axis @ geometry.tensor[1] @ axis), kappa=kappa,
        u_s=float(geometry.up @ slide), u_x=float(u_x), u_y=float(u_y),
    )
    return Recognised(formula=formula, sign=(1.0, 1.0), phase=(0.0, link_2.angle))
