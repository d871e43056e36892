# SPDX-License-Identifier: Apache-2.0
"""The textbook formulas, one file per mechanism, and which of them fits an arm."""

from __future__ import annotations

from math import pi

from ros_lagdyn.arm import BASE, Arm
from ros_lagdyn.closed_form import (
    cartesian,
    five_bar,
    prismatic_revolute,
    skew_cartesian,
    spatial_3r,
    spherical_pendulum,
    two_link,
    two_link_remote,
)
from ros_lagdyn.closed_form.geometry import (
    EXACT_WITHIN,
    Geometry,
    Recognised,
)
from ros_lagdyn.errors import UnrecognisedMechanismError
from ros_lagdyn.rigid_body import Array

FORMULAS = (
    two_link.TwoLink,
    two_link_remote.TwoLinkRemote,
    five_bar.FiveBar,
    spatial_3r.Spatial3R,
    cartesian.Cartesian,
    skew_cartesian.SkewCartesian,
    prismatic_revolute.PrismaticRevolute,
    spherical_pendulum.SphericalPendulum,
)


def recognise(arm: Arm, gravity: Array) -> Recognised:
    """Find the formula of an arm from its joints and geometry.

    Args:
        arm: the arm.
        gravity: (3,) [m/s^2], in root link axes.

    Raises:
        AssumptionError: the joints are those of a mechanism, but a link breaks an assumption of
            its formula; says which, and by how much.
        UnrecognisedMechanismError: no formula has such joints.
    """
    kinds = ''.join('R' if joint.turns else 'P' for joint in arm.independent_joints)
    geometry = Geometry(arm, gravity)
    if arm.has_mimic:
        if kinds == 'RR' and all(body.joint.turns for body in arm.bodies):
            both_on_base = all(
                body.parent == BASE for body in arm.bodies if body.joint.mimic is None)
            mechanism = five_bar.recognise if both_on_base else two_link_remote.recognise
            return mechanism(geometry)
    elif _is_chain(arm):
        if kinds == 'RR':
            return _two_revolute(geometry)
        if kinds == 'PP':
            right = abs(float(geometry.axis[0] @ geometry.axis[1])) <= EXACT_WITHIN
            mechanism = cartesian.recognise if right else skew_cartesian.recognise
            return mechanism(geometry)
        if kinds == 'PR':
            return prismatic_revolute.recognise(geometry)
        if kinds == 'RRR':
            return spatial_3r.recognise(geometry)
    raise UnrecognisedMechanismError(
        f'robot "{arm.name}": no closed form has the joints {_describe(arm, kinds)}; there are '
        + ', '.join(formula.stem for formula in FORMULAS)
        + '; the engines "lagrangian" and "pinocchio" compute any arm')


def _two_revolute(geometry: Geometry) -> Recognised:
    # Each says what is wrong where the axes are neither parallel nor at right angles.
    nearer_parallel = geometry.angle_between(0, 1) < pi / 4
    mechanism = two_link.recognise if nearer_parallel else spherical_pendulum.recognise
    return mechanism(geometry)


def _describe(arm: Arm, kinds: str) -> str:
    listed = ', '.join(
        f'{joint.name} ({joint.kind})' for joint in arm.independent_joints[:8])
    more = f' and {len(kinds) - 8} more' if len(kinds) > 8 else ''
    if arm.has_mimic:
        return listed + more + ' with mimic joints'
    return listed + more + ('' if _is_chain(arm) else ' in a branching tree')


def _is_chain(arm: Arm) -> bool:
    return all(body.parent == index - 1 for index, body in enumerate(arm.bodies))
