# SPDX-License-Identifier: Apache-2.0
r"""Two prismatic joints at any angle alpha to each other (001, analysis of inertial couplings).

.. math::
    D = \begin{bmatrix} m_1 + m_2 & m_2 \cos\alpha \\ m_2 \cos\alpha & m_2 \end{bmatrix},
    \quad C = 0, \quad g_1 = (m_1 + m_2)\, u_1, \quad g_2 = m_2\, u_2

D is constant, with a coupling; u_i is the part against gravity along slide i.
"""

from __future__ import annotations

from dataclasses import dataclass

from ros_lagdyn.closed_form.formula import Column, Matrix, Trig, Vector
from ros_lagdyn.closed_form.geometry import Geometry, Recognised


@dataclass(frozen=True, kw_only=True)
class SkewCartesian:
    """The skew robot's formula."""

    stem = 'skew_cartesian'

    m_1: float  # [kg]
    m_2: float  # [kg]
    cos_alpha: float  # cosine of the angle between the slides
    u_1: float  # [m/s^2]
    u_2: float  # [m/s^2]

    def mass_matrix(self, q: Vector, trig: Trig) -> Matrix:
        """Return D."""
        d_12 = self.m_2 * self.cos_alpha
        return (self.m_1 + self.m_2, d_12), (d_12, self.m_2)

    def coriolis_matrix(self, q: Vector, v: Vector, trig: Trig) -> Matrix:
        """Return C = 0, because D is constant."""
        return (0.0, 0.0), (0.0, 0.0)

    def gravity(self, q: Vector, trig: Trig) -> Vector:
        """Return g, the same in every pose."""
        return (self.m_1 + self.m_2) * self.u_1, self.m_2 * self.u_2

    def potential_energy(self, q: Vector, trig: Trig) -> Column:
        """Return P."""
        return (self.m_1 + self.m_2) * self.u_1 * q[0] + self.m_2 * self.u_2 * q[1]


def recognise(geometry: Geometry) -> Recognised:
    """Read the parameters off a chain of two prismatic joints."""
    slide_1, slide_2 = geometry.axis
    formula = SkewCartesian(
        m_1=float(geometry.mass[0]), m_2=float(geometry.mass[1]),
        cos_alpha=float(slide_1 @ slide_2),
        u_1=float(geometry.up @ slide_1), u_2=float(geometry.up @ slide_2),
    )
    return Recognised(formula=formula, sign=(1.0, 1.0), phase=(0.0, 0.0))
