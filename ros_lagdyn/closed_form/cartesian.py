# SPDX-License-Identifier: Apache-2.0
r"""Two prismatic joints at right angles (001, analysis of inertial couplings).

.. math::
    D = \begin{bmatrix} m_1 + m_2 & 0 \\ 0 & m_2 \end{bmatrix}, \quad C = 0, \quad
    g_1 = (m_1 + m_2)\, u_1, \quad g_2 = m_2\, u_2

The skew robot with alpha = 90 degrees: constant, and without a coupling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    found = skew_cartesian.recognise(geometry)
    skew = found.formula
    return replace(found, formula=Cartesian(
        m_1=skew.m_1, m_2=skew.m_2, u_1=skew.u_1, u_2=skew.u_2))
