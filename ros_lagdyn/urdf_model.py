# SPDX-License-Identifier: Apache-2.0
"""Read a URDF into an Arm, and refuse what cannot be an arm.

The text passes three gates. The XML is read with document type declarations refused, so that no
entity is ever expanded and no file that the text names is ever opened. Only what dynamics needs
(links with their inertia, joints, every number as it is written) goes on to the URDF readers:
urdf_parser_py here, Pinocchio's own in its engine. What urdf_parser_py returns is checked for
physical sense before it becomes an Arm.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from urdf_parser_py import urdf as urdf_parser
from urdf_parser_py.xml_reflection.core import ParseError

from ros_lagdyn.arm import BASE, Arm, Body, Frame, Joint, Limit, Mimic
from ros_lagdyn.errors import UnsupportedJointError, UrdfError
from ros_lagdyn.rigid_body import Array, Inertia, Placement, rotation_from_rpy

SUPPORTED_KINDS = ('revolute', 'continuous', 'prismatic', 'fixed')
MAX_BYTES = 5_000_000  # a hundred times the largest URDF of a real arm without meshes
MAX_DEPTH = 100
MAX_NUMBER = 1e12  # of any length, mass or moment; joint limits may be as large as they like
MAX_LINKS = 2000  # and as many joints; ten times a humanoid
MAX_MOVING_JOINTS = 500  # matrices grow with the square of it
# Moments rounded to four digits, as CAD programs write them, may miss the triangle inequality
# of a flat plate by this much of the largest moment.
ROUNDING_OF_MOMENTS = 1e-4

# What dynamics needs of a URDF: tag -> (attributes kept, children kept).
_Schema = Mapping[str, tuple[tuple[str, ...], 'Mapping[str, Any]']]
_POSE: _Schema = {'origin': (('xyz', 'rpy'), {})}
_SCHEMA: _Schema = {
    'link': (('name',), {
        'inertial': ((), {
            **_POSE,
            'mass': (('value',), {}),
            'inertia': (('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'), {}),
        }),
    }),
    'joint': (('name', 'type'), {
        **_POSE,
        'parent': (('link',), {}),
        'child': (('link',), {}),
        'axis': (('xyz',), {}),
        'limit': (('lower', 'upper', 'effort', 'velocity'), {}),
        'dynamics': (('damping', 'friction'), {}),
        'mimic': (('joint', 'multiplier', 'offset'), {}),
    }),
}


def read_urdf_text(urdf: str | bytes | os.PathLike[str]) -> str:
    """Return the XML text of a URDF given as a path or as the text itself.

    Raises:
        UrdfError: the file is not there, too large, not UTF-8 text, or empty.
    """
    if isinstance(urdf, bytes):
        return _decode(urdf, 'URDF')
    if isinstance(urdf, str) and (not urdf.strip() or '<' in urdf):
        return _decode(urdf.encode('utf-8', 'surrogatepass'), 'URDF')
    if not isinstance(urdf, (str, os.PathLike)):
        raise UrdfError(f'urdf must be a path or XML text, got {type(urdf).__name__}')
    try:
        path = Path(urdf)
        with path.open('rb') as file:
            raw = file.read(MAX_BYTES + 1)
        return _decode(raw, f'URDF file "{path}"')
    except FileNotFoundError:
        raise UrdfError(f'URDF file "{_shown(str(urdf))}" does not exist') from None
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, 'strerror', None) or error
        raise UrdfError(f'URDF file "{_shown(str(urdf))}" cannot be read: {reason}') from None


def load_arm(urdf: str | bytes | os.PathLike[str]) -> Arm:
    """Read a URDF, given as a path or as XML text, into an Arm.

    Raises:
        UrdfError: the text is not a URDF, or not a possible arm. The message says what, where
            and what would be right.
    """
    return arm_from_slim_urdf(slim_urdf(read_urdf_text(urdf)))


def slim_urdf(text: str) -> str:
    """Return the parts of a URDF text that dynamics needs, after checking their form.

    Raises:
        UrdfError: the text is not a URDF.
    """
    return ElementTree.tostring(_slim(_safe_root(text)), encoding='unicode')


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


# -- the XML ---------------------------------------------------------------------------------


def _decode(raw: bytes, what: str) -> str:
    if len(raw) > MAX_BYTES:
        raise UrdfError(f'{what} is too large, at most {MAX_BYTES} bytes are read')
    try:
        text = raw.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        raise UrdfError(
            f'{what} is not UTF-8 text: byte {error.start} is {raw[error.start]:#04x}') from None
    if not text.strip():
        raise UrdfError(f'{what} is empty, expected a <robot> element')
    return text


_XACRO_TAG = re.compile(r'\{[^}]*xacro[^}]*\}')


class _RefusingBuilder(ElementTree.TreeBuilder):
    """Build elements, but refuse document types (entity bombs) and absurd nesting."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise UrdfError(
            f'URDF: document type declaration <!DOCTYPE {name}> is refused, because entities can '
            'blow up or name files; remove it')

    def start(self, tag: Any, attrs: dict[Any, Any]) -> ElementTree.Element:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UrdfError(f'URDF: elements are nested deeper than {MAX_DEPTH} at <{tag}>')
        return super().start(tag, attrs)

    def end(self, tag: str) -> ElementTree.Element:
        self._depth -= 1
        return super().end(tag)


def _safe_root(text: str) -> ElementTree.Element:
    parser = ElementTree.XMLParser(target=_RefusingBuilder())
    try:
        parser.feed(text)  # as text: an encoding declaration is void, it is decoded already
        root = parser.close()
    except ElementTree.ParseError as error:
        raise UrdfError(f'URDF: malformed XML: {error}') from None
    except (ValueError, LookupError) as error:
        raise UrdfError(f'URDF: XML that cannot be decoded: {error}') from None
    if root.tag != 'robot':
        raise UrdfError(f'URDF: the outermost element is <{root.tag}>, expected <robot>')
    if any(_XACRO_TAG.match(str(element.tag)) for element in root.iter()):
        raise UrdfError('URDF: this is a xacro file, expand it first: xacro FILE > FILE.urdf')
    return root


def _keep(element: ElementTree.Element, schema: _Schema, path: str) -> Iterable[
        ElementTree.Element]:
    """Yield copies of the children that dynamics needs, without anything else in them."""
    seen = set()
    for child in element:
        if child.tag not in schema:
            continue
        name = child.get('name')
        where = f'{path}{child.tag} "{name}"' if name is not None else f'{path}<{child.tag}>'
        if path and child.tag in seen:
            raise UrdfError(f'{where} stands there twice, expected once')
        seen.add(child.tag)
        attributes, children = schema[child.tag]
        copy = ElementTree.Element(child.tag, {
            key: child.attrib[key] for key in attributes if key in child.attrib})
        copy.extend(list(_keep(child, children, f'{where}: ')))
        _require_attributes(copy, where)
        yield copy


# Attributes without which an element means nothing, as the URDF specification has it.
_REQUIRED = {
    'link': ('name',), 'joint': ('name', 'type'), 'mass': ('value',), 'parent': ('link',),
    'child': ('link',), 'inertia': ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'), 'axis': ('xyz',),
    'limit': ('effort', 'velocity'), 'mimic': ('joint',),
}
# What every URDF reader takes for a number. Some drop an <inertial> with any other one silently.
_NUMBER = re.compile(r'[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?')
_NOT_NUMBERS = ('name', 'type', 'link', 'joint')


def _require_attributes(element: ElementTree.Element, where: str) -> None:
    for key in _REQUIRED.get(element.tag, ()):
        if key not in element.attrib:
            raise UrdfError(f'{where}: attribute "{key}" is missing')
    for key, value in element.attrib.items():
        if key in _NOT_NUMBERS:
            if not value.strip():
                raise UrdfError(f'{where}: attribute "{key}" is empty, expected a name')
            if not value.isprintable():
                raise UrdfError(f'{_shown(where)}: attribute "{key}" must be printable, got '
                                f'"{_shown(value)}"')
            continue
        count = 3 if key in ('xyz', 'rpy') else 1
        words = value.split() if count == 3 else [value]
        if len(words) != count or not all(_is_finite_number(word) for word in words):
            expected = 'a finite number' if count == 1 else f'{count} finite numbers'
            raise UrdfError(f'{where}: {key} must be {expected}, got "{_shown(value)}"')
        if element.tag != 'limit' and max(abs(float(word)) for word in words) > MAX_NUMBER:
            raise UrdfError(
                f'{where}: {key} must be at most {MAX_NUMBER:g}, got "{_shown(value)}"')


def _shown(text: str) -> str:
    """Return text as one short line."""
    return text[:60].encode('unicode_escape').decode('ascii') if not text.isprintable() else (
        text[:200])


def _is_finite_number(word: str) -> bool:
    return _NUMBER.fullmatch(word) is not None and isfinite(float(word))


def _slim(root: ElementTree.Element) -> ElementTree.Element:
    slim = ElementTree.Element('robot', {'name': root.get('name') or 'unnamed'})
    slim.extend(list(_keep(root, _SCHEMA, '')))
    for tag in ('link', 'joint'):
        count = len(slim.findall(tag))
        if count > MAX_LINKS:
            raise UrdfError(f'URDF: {count} {tag}s, at most {MAX_LINKS} are read')
        for name, times in Counter(element.get('name') for element in slim.findall(tag)).items():
            if times > 1:
                raise UrdfError(f'{tag} "{name}" is defined {times} times, expected once')
    for element in slim.findall('joint'):
        _require_children(element, ('parent', 'child'))
        if element.get('type') not in SUPPORTED_KINDS:
            raise UnsupportedJointError(
                element.get('name', ''), element.get('type', ''), SUPPORTED_KINDS)
    for element in slim.findall('link'):
        for inertial in element.findall('inertial'):
            _require_children(inertial, ('mass', 'inertia'), element)
    if slim.find('link') is None:
        raise UrdfError('URDF: <robot> has no <link>, expected at least two and a joint')
    return slim


def _require_children(element: ElementTree.Element, tags: tuple[str, ...],
                      owner: ElementTree.Element | None = None) -> None:
    named = element if owner is None else owner
    for tag in tags:
        if element.find(tag) is None:
            hint = ' (zeros for a point mass)' if tag == 'inertia' else ''
            raise UrdfError(
                f'{named.tag} "{named.get("name")}": <{element.tag}> needs a <{tag}>{hint}')


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
                        'are computed')
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
