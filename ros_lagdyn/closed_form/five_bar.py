# SPDX-License-Identifier: Apache-2.0
r"""Five-bar linkage with parallelogram structure (001).

Links 1 and 2 turn with the motors, link 3 is parallel to link 1 at the tip of link 2, link 4
parallel to link 2 at the tip of link 1 (c and s with index 2-1 are of q_2 - q_1):

.. math::
    d_{11} &= I_1 + m_1 l_{c1}^2 + I_3 + m_3 l_{c3}^2 + m_4 l_1^2 \\
    d_{22} &= I_2 + m_2 l_{c2}^2 + I_4 + m_4 l_{c4}^2 + m_3 l_2^2 \\
    d_{12} &= (m_3 l_2 l_{c3} - m_4 l_1 l_{c4})\, c_{2-1} + (m_3 l_2 h_3 + m_4 l_1 h_4)\, s_{2-1}

    g_1 &= g_0 (m_1 l_{c1} + m_3 l_{c3} + m_4 l_1)\, c_1 - g_0 (m_1 h_1 + m_3 h_3)\, s_1 \\
    g_2 &= g_0 (m_2 l_{c2} + m_3 l_2 - m_4 l_{c4})\, c_2 - g_0 (m_2 h_2 - m_4 h_4)\, s_2

The document has all centres of mass on the links' lines; here they may lie h_i to the left
(l_ci^2 then reads l_ci^2 + h_i^2). Link 4's is at l_1 e_1 - l_c4 e_2 - h_4 n_2, with e_i along
link i and n_i to its left.

Design conditions: m_3 l_2 l_c3 = m_4 l_1 l_c4 (and the h in balance) makes D constant and
diagonal and C = 0; the brackets of g_1 and g_2 equal to 0 make gravity vanish.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros_lagdyn.closed_form.absolute_angles import AbsoluteAngles, ParallelLink
from ros_lagdyn.closed_form.formula import Column, Matrix, Trig, Vector
from ros_lagdyn.closed_form.geometry import (
    NEARLY_PARALLEL_WITHIN,
    Geometry,
    Recognised,
    heading,
)
from ros_lagdyn.errors import AssumptionError
from ros_lagdyn.rigid_body import Array


@dataclass(frozen=True, kw_only=True)
class DesignConditions:
    """What the design of a five-bar balances; a condition holds where its number is 0."""

    coupling: float  # [kg m^2], |m_3 l_2 l_c3 - m_4 l_1 l_c4| (*) of 001
    gravity_1: float  # [kg m], first moment that motor 1 carries
    gravity_2: float  # [kg m], first moment that motor 2 carries
    coupling_scale: float  # [kg m^2], the sum of what cancels
    gravity_scale: float  # [kg m]

    @property
    def decoupled(self) -> bool:
        """Say whether M is constant and diagonal, to rounding."""
        return abs(self.coupling) <= 1e-12 * self.coupling_scale

    @property
    def balanced(self) -> bool:
        """Say whether gravity vanishes in every pose, to rounding."""
        return max(abs(self.gravity_1), abs(self.gravity_2)) <= 1e-12 * self.gravity_scale


@dataclass(frozen=True, kw_only=True)
class FiveBar:
    """The parallelogram's formula in the book's symbols."""

    stem = 'five_bar'

    m_1: float  # [kg]
    l_1: float  # [m], base to link 4's joint
    l_c1: float  # [m], along the line; h_1 across it
    h_1: float
    I_1: float  # [kg m^2], about the centre of mass
    m_2: float
    l_2: float  # [m], base to link 3's joint
    l_c2: float
    h_2: float
    I_2: float
    m_3: float
    l_c3: float  # [m], from link 2's tip, along link 1's direction
    h_3: float
    I_3: float
    m_4: float
    l_c4: float  # [m], from link 1's tip, against link 2's direction
    h_4: float
    I_4: float
    g_0: float  # [m/s^2], the part of gravity that lies in the plane of motion

    @property
    def coupling_cosine(self) -> float:
        """Factor of cos(q_2 - q_1) in d_12 [kg m^2]; 0 by the design condition (*) of 001."""
        return self.m_3 * self.l_2 * self.l_c3 - self.m_4 * self.l_1 * self.l_c4

    @property
    def coupling_sine(self) -> float:
        """Factor of sin(q_2 - q_1) in d_12 [kg m^2]; 0 in the document."""
        return self.m_3 * self.l_2 * self.h_3 + self.m_4 * self.l_1 * self.h_4

    def mass_matrix(self, q: Vector, trig: Trig) -> Matrix:
        """Return D (001)."""
        d_11 = (self.I_1 + self.m_1 * (self.l_c1**2 + self.h_1**2)
                + self.I_3 + self.m_3 * (self.l_c3**2 + self.h_3**2) + self.m_4 * self.l_1**2)
        d_22 = (self.I_2 + self.m_2 * (self.l_c2**2 + self.h_2**2)
                + self.I_4 + self.m_4 * (self.l_c4**2 + self.h_4**2) + self.m_3 * self.l_2**2)
        d_12 = (self.coupling_cosine * trig.cos(q[1] - q[0])
                + self.coupling_sine * trig.sin(q[1] - q[0]))
        return (d_11, d_12), (d_12, d_22)

    def coriolis_matrix(self, q: Vector, v: Vector, trig: Trig) -> Matrix:
        """Return C from c_221 = d d_12 / d q_2 = -c_112."""
        c_221 = (-self.coupling_cosine * trig.sin(q[1] - q[0])
                 + self.coupling_sine * trig.cos(q[1] - q[0]))
        return (0.0, c_221 * v[1]), (-c_221 * v[0], 0.0)

    @property
    def moments(self) -> tuple[float, float, float, float]:
        """First moments [kg m]: along and across link 1, along and across link 2."""
        return (self.m_1 * self.l_c1 + self.m_3 * self.l_c3 + self.m_4 * self.l_1,
                self.m_1 * self.h_1 + self.m_3 * self.h_3,
                self.m_2 * self.l_c2 + self.m_3 * self.l_2 - self.m_4 * self.l_c4,
                self.m_2 * self.h_2 - self.m_4 * self.h_4)

    def gravity(self, q: Vector, trig: Trig) -> Vector:
        """Return g_1(q_1), g_2(q_2) (001)."""
        along_1, across_1, along_2, across_2 = self.moments
        return (self.g_0 * (along_1 * trig.cos(q[0]) - across_1 * trig.sin(q[0])),
                self.g_0 * (along_2 * trig.cos(q[1]) - across_2 * trig.sin(q[1])))

    def potential_energy(self, q: Vector, trig: Trig) -> Column:
        """Return U = U_1 + U_2 + U_3 + U_4 (001)."""
        along_1, across_1, along_2, across_2 = self.moments
        return self.g_0 * (along_1 * trig.sin(q[0]) + across_1 * trig.cos(q[0])
                           + along_2 * trig.sin(q[1]) + across_2 * trig.cos(q[1]))

    @property
    def design_conditions(self) -> DesignConditions:
        """How far the linkage is from the designs that decouple and balance it (001)."""
        along_1, across_1, along_2, across_2 = self.moments
        return DesignConditions(
            coupling=float(np.hypot(self.coupling_cosine, self.coupling_sine)),
            gravity_1=float(np.hypot(along_1, across_1)),
            gravity_2=float(np.hypot(along_2, across_2)),
            coupling_scale=(self.m_3 * self.l_2 * float(np.hypot(self.l_c3, self.h_3))
                            + self.m_4 * self.l_1 * float(np.hypot(self.l_c4, self.h_4))),
            gravity_scale=(self.m_1 + self.m_2 + self.m_3 + self.m_4) * (self.l_1 + self.l_2),
        )


def recognise(geometry: Geometry) -> Recognised:
    """Read the parameters off a tree whose mimic joints close a parallelogram."""
    plane = AbsoluteAngles(geometry, FiveBar.stem)
    links = {1: plane.upper_arm, 2: plane.crank, 3: plane.coupler, 4: plane.forearm}
    if links[3] is None and links[4] is None:
        raise AssumptionError(
            mechanism=FiveBar.stem, part=plane.links[0].label,
            assumption='a link at the tip of another one, parallel to the other motor',
            found='none')
    first = plane.links[0]
    for link in plane.links[1:]:
        geometry.require_zero_length(
            FiveBar.stem, link.label,
            f'a loop that closes: the way to it starts on the same axis as that of {first.label}',
            float(np.linalg.norm(link.fixed - first.fixed)), NEARLY_PARALLEL_WITHIN)
    line_1 = heading(_line(links[4], links[1], motor=1))
    line_2 = heading(_line(links[3], links[2], motor=2))
    nothing = np.zeros(2)

    def vector(number: int, motor: int) -> Array:
        link = links[number]
        return nothing if link is None else (link.on_1 if motor == 1 else link.on_2)

    l_c1, h_1 = line_1.components(vector(1, 1))
    l_c2, h_2 = line_2.components(vector(2, 2))
    l_c3, h_3 = line_1.components(vector(3, 1))
    l_c4, h_4 = line_2.components(-vector(4, 2))
    h_1, h_2, h_3, h_4 = (geometry.without_rounding(h) for h in (h_1, h_2, h_3, h_4))
    m_1, m_2, m_3, m_4 = (0.0 if link is None else link.mass for link in links.values())
    I_1, I_2, I_3, I_4 = (0.0 if link is None else link.inertia for link in links.values())
    formula = FiveBar(
        m_1=m_1, l_1=line_1.length if links[4] else 0.0, l_c1=l_c1, h_1=h_1, I_1=I_1,
        m_2=m_2, l_2=line_2.length if links[3] else 0.0, l_c2=l_c2, h_2=h_2, I_2=I_2,
        m_3=m_3, l_c3=l_c3, h_3=h_3, I_3=I_3,
        m_4=m_4, l_c4=l_c4, h_4=h_4, I_4=I_4, g_0=plane.g,
    )
    return Recognised(
        formula=formula, sign=(1.0, plane.sign_2), phase=(line_1.angle, line_2.angle))


def _line(at_tip: ParallelLink | None, itself: ParallelLink | None, *, motor: int) -> Array:
    """Return the line of a motor's link: to the joint at its tip, else to its centre of mass."""
    link = at_tip or itself
    if link is None:
        return np.zeros(2)
    return link.on_1 if motor == 1 else link.on_2
