# SPDX-License-Identifier: Apache-2.0
r"""Two prismatic joints at right angles (001, analysis of inertial couplings).

.. math::
    D = \begin{bmatrix} m_1 + m_2 & 0 \\ 0 & m_2 \end{bmatrix}, \quad C = 0, \quad
    g_1 = (m_1 + m_2)\, u_1, \quad g_2 = m_2\, u_2

The skew robot with alpha = 90 degrees: constant, and without a coupling.
"""

from __future__ import annotations

from dataclasses import dataclass

from ros_lagdyn.closed_form import skew_cartesian
from ros_lagdyn.closed_form.geometry import Geometry, Recognised


@dataclass(frozen=True, kw_only=True)
class Cartesian(skew_cartesian.SkewCartesian):
    """The Cartesian robot's formula."""

    stem = 'cartesian'

    cos_alpha: float = 0.0


def recognise(geometry: Geometry) -> Recognised:
    """Read the parameters off a chain of two prismatic joints at right angles."""
    geometry.require_perpendicular(Cartesian.stem, 0, 1)
    slide_1, slide_2 = geometry.axis
    formula = Cartesian(
        m_1=float(geometry.mass[0]), m_2=float(geometry.mass[1]),
        u_1=float(geometry.up @ slide_1), u_2=float(geometry.up @ slide_2),
    )
    return Recognised(formula=formula, sign=(1.0, 1.0), phase=(0.0, 0.0))
