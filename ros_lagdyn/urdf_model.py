# SPDX-License-Identifier: Apache-2.0
"""Read a URDF into an Arm, and refuse what cannot be an arm.

The text passes three gates: safe XML, reduced to what dynamics needs (urdf_text.py), then
urdf_parser_py, then physical sense. Pinocchio's engine reads the same reduced text with a parser
of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
from urdf_parser_py import urdf as urdf_parser
from urdf_parser_py.xml_reflection.core import ParseError

from ros_lagdyn.arm import BASE, Arm, Body, Frame, Joint, Limit, Mimic
from ros_lagdyn.errors import UrdfError
from ros_lagdyn.rigid_body import Array, Inertia, Placement, rotation_from_rpy
from ros_lagdyn.urdf_text import MAX_NUMBER, SUPPORTED_KINDS, read_urdf_text, slim_urdf

# Joints that mimic others included. Memory grows with the third power of it, the time of a
# self-test faster still; a humanoid with both hands has about 100.
MAX_MOVING_JOINTS = 120
# Moments rounded to four digits, as CAD programs write them, may miss the triangle inequality
# of a flat plate by this much of the largest moment.
ROUNDING_OF_MOMENTS = 1e-4


def load_arm(urdf: str | bytes | os.PathLike[str]) -> Arm:
    """Read a URDF, given as a path or as XML text, into an Arm.

    Raises:
        UrdfError: the text is not a URDF, or not a possible arm. The message says what, where
            and what would be right.
    """
    return arm_from_slim_urdf(slim_urdf(read_urdf_text(urdf)))


def arm_from_slim_urdf(text: str) -> Arm:
    """Return the arm that a text of slim_urdf() describes.

    Raises:
        UrdfError: it is not a possible arm.
    """
    try:
        robot = urdf_parser.URDF.from_xml_string(text)
    except (ParseError, ValueError, AssertionError, KeyError) as error:
        raise UrdfError(f'URDF: urdf_parser_py refuses it: {error}') from None
    links = {link.name: _link_inertia(link) for link in robot.links}
    joints = _tree_order([_joint(joint) for joint in robot.joints], links)
    independent, projection, offset = _mimic_map(joints)
    bodies, frames = _merge_fixed_links(joints, links)
    arm = Arm(
        name=robot.name,
        joints=independent,
        bodies=bodies,
        frames=frames,
        projection=projection,
        offset=offset,
    )
    _require_every_joint_moves_mass(arm)
    return arm


# -- links and joints ------------------------------------------------------------------------


def _placement(pose: Any) -> Placement:
    if pose is None:
        return Placement.identity()
    return Placement(
        rotation=rotation_from_rpy(*(pose.rpy or (0.0, 0.0, 0.0))),
        translation=np.array(pose.xyz or (0.0, 0.0, 0.0), dtype=float),
    )


def _link_inertia(link: Any) -> Inertia | None:
    """Return the inertia of a link in its frame, or None where it has no <inertial>."""
    inertial = link.inertial
    if inertial is None:
        return None
    local = Inertia(
        mass=float(inertial.mass),
        com=np.zeros(3),
        tensor=np.array(inertial.inertia.to_matrix(), dtype=float),
    )
    return local.seen_from(_placement(inertial.origin))


def _require_physical(link: str, inertia: Inertia) -> None:
    if not inertia.mass > 0.0:
        raise UrdfError(f'link "{link}": mass must be > 0 kg, got {inertia.mass} kg; a massless '
                        'frame has no <inertial> at all')
    moments = np.linalg.eigvalsh(inertia.tensor)
    slack = ROUNDING_OF_MOMENTS * abs(moments).max()
    if moments[0] < -slack:
        raise UrdfError(f'link "{link}": inertia must have principal moments >= 0 kg m^2, '
                        f'got {moments[0]:.6g} kg m^2')
    if moments[2] > moments[0] + moments[1] + slack:
        raise UrdfError(
            f'link "{link}": inertia violates the triangle inequality, the largest principal '
            f'moment must be at most the sum of the others: {moments[2]:.6g} > '
            f'{moments[0]:.6g} + {moments[1]:.6g} kg m^2')


def _joint(joint: Any) -> Joint:
    where = f'joint "{joint.name}"'
    axis = np.array(joint.axis if joint.axis is not None else (1.0, 0.0, 0.0), dtype=float)
    largest = float(abs(axis).max())
    if joint.type != 'fixed' and not 1e-9 <= largest <= 1e9:
        nature = 'must not be the zero vector' if largest < 1e-9 else 'must be a unit vector'
        raise UrdfError(f'{where}: axis {nature}, got {axis.tolist()}')
    length = float(np.linalg.norm(axis)) if joint.type != 'fixed' else 0.0
    dynamics = joint.dynamics
    damping, friction = (0.0, 0.0) if dynamics is None else (
        float(dynamics.damping or 0.0), float(dynamics.friction or 0.0))
    for key, value in (('damping', damping), ('friction', friction)):
        if value < 0.0:
            raise UrdfError(f'{where}: {key} must be >= 0, got {value}')
    mimic = joint.mimic
    return Joint(
        name=joint.name,
        kind=joint.type,
        parent=joint.parent,
        child=joint.child,
        placement=_placement(joint.origin),
        axis=axis / length if length > 0.0 else axis,
        limit=_limit(joint),
        damping=damping,
        friction=friction,
        mimic=None if mimic is None or joint.type == 'fixed' else Mimic(
            joint=mimic.joint,
            multiplier=1.0 if mimic.multiplier is None else float(mimic.multiplier),
            offset=0.0 if mimic.offset is None else float(mimic.offset),
        ),
    )


def _limit(joint: Any) -> Limit:
    where = f'joint "{joint.name}"'
    limit = joint.limit
    if limit is None:
        if joint.type in ('revolute', 'prismatic'):
            raise UrdfError(f'{where}: a {joint.type} joint needs '
                            '<limit lower= upper= effort= velocity=>')
        return Limit()
    for key in ('effort', 'velocity'):
        if getattr(limit, key) < 0.0:
            raise UrdfError(f'{where}: {key} limit must be >= 0, got {getattr(limit, key)}')
    if joint.type == 'continuous':
        return Limit(effort=limit.effort, velocity=limit.velocity)
    lower, upper = float(limit.lower or 0.0), float(limit.upper or 0.0)
    if lower > upper:
        raise UrdfError(f'{where}: lower limit must be <= upper limit, got {lower} > {upper}')
    return Limit(lower=lower, upper=upper, effort=limit.effort, velocity=limit.velocity)


def _some(names: Iterable[str]) -> str:
    """Return the first few names, for a message."""
    first = list(islice(names, 6))
    return ', '.join(f'"{name}"' for name in first[:5]) + (', ...' if len(first) > 5 else '')


# -- the tree --------------------------------------------------------------------------------


def _tree_order(joints: list[Joint], links: Mapping[str, Inertia | None]) -> list[Joint]:
    """Sort joints so that parents come first: depth first, siblings as the file has them."""
    parent_of: dict[str, Joint] = {}
    for joint in joints:
        for role, link in (('parent', joint.parent), ('child', joint.child)):
            if link not in links:
                raise UrdfError(f'joint "{joint.name}": {role} link "{link}" is not defined, '
                                f'there are {_some(links)}')
        if joint.child in parent_of:
            raise UrdfError(
                f'link "{joint.child}" is the child of two joints, '
                f'"{parent_of[joint.child].name}" and "{joint.name}", expected one: '
                'URDF describes trees')
        parent_of[joint.child] = joint
    roots = [link for link in links if link not in parent_of]
    children: dict[str, list[Joint]] = {link: [] for link in links}
    for joint in joints:
        children[joint.parent].append(joint)
    ordered: list[Joint] = []
    stack = list(reversed(children[roots[0]])) if roots else []
    while stack:
        ordered.append(stack.pop())
        stack.extend(reversed(children[ordered[-1].child]))
    reached = {joint.name for joint in ordered}
    unreached = [joint for joint in joints if joint.name not in reached]
    if not roots or (unreached and len(roots) == 1):
        raise UrdfError(f'joint "{(unreached or joints)[0].name}" is part of a loop of joints, '
                        'expected a tree: close loops with <mimic>')
    if len(roots) > 1:
        raise UrdfError(f'{len(roots)} links are without a parent joint, expected one root link: '
                        + _some(roots))
    return ordered


def _mimic_map(joints: list[Joint]) -> tuple[tuple[str, ...], Array, Array]:
    """Return the independent joints and P, offset of q_tree = P q + offset."""
    moving = [joint for joint in joints if joint.kind != 'fixed']
    if len(moving) > MAX_MOVING_JOINTS:
        raise UrdfError(f'the robot has {len(moving)} moving joints, at most {MAX_MOVING_JOINTS} '
                        'are computed, mimic joints included')
    by_name = {joint.name: joint for joint in joints}
    independent = tuple(joint.name for joint in moving if joint.mimic is None)
    projection = np.zeros((len(moving), len(independent)))
    offset = np.zeros(len(moving))
    for row, joint in enumerate(moving):
        leader, multiplier, constant = joint, 1.0, 0.0
        followed = [joint.name]
        while leader.mimic is not None:
            mimic = leader.mimic
            if mimic.joint not in by_name:
                raise UrdfError(
                    f'joint "{leader.name}": mimics unknown joint "{mimic.joint}", there are '
                    + _some(by_name))
            constant += multiplier * mimic.offset
            multiplier *= mimic.multiplier
            leader = by_name[mimic.joint]
            if leader.name in followed:
                raise UrdfError(f'joint "{joint.name}": mimic tags form a cycle: '
                                + ' -> '.join([*followed, leader.name]))
            followed.append(leader.name)
        if not (abs(multiplier) <= MAX_NUMBER and abs(constant) <= MAX_NUMBER):
            raise UrdfError(
                f'joint "{joint.name}": the multipliers and offsets of its mimic tags must make '
                f'at most {MAX_NUMBER:g}, they make {multiplier:g} and {constant:g}')
        if leader.kind == 'fixed':
            raise UrdfError(f'joint "{joint.name}": mimics joint "{leader.name}", which is fixed')
        projection[row, independent.index(leader.name)] = multiplier
        offset[row] = constant
    return independent, projection, offset


def _merge_fixed_links(joints: list[Joint], links: Mapping[str, Inertia | None]) -> tuple[
        tuple[Body, ...], dict[str, Frame]]:
    """Weld links on fixed joints to the body that carries them."""
    root = joints[0].parent if joints else next(iter(links))
    frames = {root: Frame(body=BASE, placement=Placement.identity())}
    moving: list[tuple[Joint, Frame]] = []
    merged: list[list[str]] = []
    for joint in joints:
        carrier = frames[joint.parent]
        if joint.kind == 'fixed':
            frame = Frame(body=carrier.body, placement=carrier.placement @ joint.placement)
        else:
            moving.append((joint, carrier))
            merged.append([])
            frame = Frame(body=len(moving) - 1, placement=Placement.identity())
        frames[joint.child] = frame
        if frame.body != BASE:
            merged[frame.body].append(joint.child)
    bodies = []
    for (joint, carrier), names in zip(moving, merged, strict=True):
        total = Inertia.zero()
        for name in names:
            inertia = links[name]
            if inertia is not None:
                _require_physical(name, inertia)
                total = total + inertia.seen_from(frames[name].placement)
        bodies.append(Body(
            name=joint.child,
            joint=joint,
            parent=carrier.body,
            placement=carrier.placement @ joint.placement,
            inertia=total,
            links=tuple(names),
        ))
    return tuple(bodies), frames


def _require_every_joint_moves_mass(arm: Arm) -> None:
    if not arm.bodies:
        raise UrdfError(f'robot "{arm.name}" has no moving joint, expected at least one of '
                        + ', '.join(SUPPORTED_KINDS[:3]))
    masses = np.array([body.inertia.mass for body in arm.bodies])
    moved_mass = masses @ arm.moved_by
    for index, name in enumerate(arm.joints):
        followers = arm.projection[:, index] != 0.0
        if not np.any(moved_mass[followers] > 0.0):
            raise UrdfError(f'joint "{name}" moves no mass: give a link that it moves an '
                            '<inertial>, or make the joint fixed')
