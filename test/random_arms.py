# SPDX-License-Identifier: Apache-2.0
"""Random URDFs of each mechanism, in every disguise that its formula allows, and random trees.

An arm is designed in the axes of its root link as it stands at q = 0: axes, points on them and
masses. `ArmWriter` then hides the design: each link's frame is turned and slid at random, joint
axes are reversed and stretched, mimic joints get offsets, masses are split over links that are
welded on, and the elements stand in any order. None of this changes the dynamics, except for the
sign of a reversed joint.

A mass distribution is kept as its second moments S (positive semidefinite), from which the
inertia tensor is trace(S) 1 - S: such a tensor always satisfies the triangle inequality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from xml.sax.saxutils import quoteattr

import numpy as np

Array = np.ndarray
Rng = np.random.Generator
ROOT = 'root'


# -- vectors and masses ----------------------------------------------------------------------


def rotation_about(axis: Array, angle: float) -> Array:
    """Return the rotation by `angle` [rad] about a unit vector (Rodrigues)."""
    x, y, z = axis
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K


def rotation_of(rpy: Array) -> Array:
    """Return the rotation of a URDF's rpy, as three rotations about fixed axes."""
    x, y, z = np.eye(3)
    return rotation_about(z, rpy[2]) @ rotation_about(y, rpy[1]) @ rotation_about(x, rpy[0])


def direction(rng: Rng) -> Array:
    """Return a random unit vector."""
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)


def direction_across(rng: Rng, axis: Array) -> Array:
    """Return a random unit vector at right angles to a unit vector."""
    vector = np.cross(axis, direction(rng))
    return vector / np.linalg.norm(vector)


@dataclass(frozen=True, eq=False)
class Mass:
    """A mass distribution, in the axes of the root link at q = 0."""

    mass: float  # [kg]
    com: Array  # (3,) [m]
    moments: Array  # (3, 3) [kg m^2], second moments S about the centre of mass

    @property
    def tensor(self) -> Array:
        """The inertia tensor about the centre of mass, (3, 3) [kg m^2]."""
        return np.trace(self.moments) * np.eye(3) - self.moments

    def split(self, rng: Rng) -> tuple[Mass, Mass]:
        """Return two distributions that are this one when they are welded together."""
        share, weight = rng.uniform(0.1, 0.9, size=2)
        # A shift within the spread of the mass leaves both parts physically possible.
        values, vectors = np.linalg.eigh(self.moments)
        spread = vectors @ np.diag(np.sqrt(np.maximum(values, 0.0) / self.mass)) @ vectors.T
        shift = spread @ direction(rng) * rng.uniform(0.2, 1.0)
        rest = self.moments - self.mass * share * (1.0 - share) * np.outer(shift, shift)
        return (
            Mass(self.mass * share, self.com + (1.0 - share) * shift, weight * rest),
            Mass(self.mass * (1.0 - share), self.com - share * shift, (1.0 - weight) * rest),
        )


def random_mass(rng: Rng, com: Array, axes: Array | None = None) -> Mass:
    """Return a random body around `com`; its principal axes are the rows of `axes`, if given."""
    mass = rng.uniform(0.3, 6.0)
    radii = rng.uniform(0.02, 0.3, size=3)  # [m], of gyration
    if axes is None:
        axes = rotation_of(rng.uniform(-pi, pi, size=3))
    return Mass(mass, com, axes.T @ np.diag(mass * radii**2) @ axes)


def point_mass(rng: Rng, com: Array) -> Mass:
    """Return a mass without extent."""
    return Mass(rng.uniform(0.3, 6.0), com, np.zeros((3, 3)))


def somewhere(rng: Rng, reach: float = 0.6) -> Array:
    """Return a random point in a box around the origin [m]."""
    return rng.uniform(-reach, reach, size=3)


# -- the disguise ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Pose:
    rotation: Array  # (3, 3), of a link's frame in root axes at q = 0
    origin: Array  # (3,) [m]


def _row(numbers: Array) -> str:
    return ' '.join(repr(float(number)) for number in numbers)


class ArmWriter:
    """Writes bodies, designed in root axes at q = 0, as a URDF in a random disguise."""

    def __init__(self, name: str, rng: Rng, *, shuffle: bool = True) -> None:
        """Start with the root link; `shuffle` puts the elements in random order."""
        self.name = name
        self.rng = rng
        self._shuffle = shuffle
        self._elements: list[str] = []
        self._poses = {ROOT: _Pose(np.eye(3), np.zeros(3))}
        self._sign: dict[str, float] = {}  # +1 where the joint turns as designed
        self._position: dict[str, float] = {}  # of each joint at q = 0
        # The root is not moved: whatever it weighs must not matter.
        heavy = random_mass(rng, somewhere(rng)) if rng.random() < 0.3 else None
        self._write_link(ROOT, heavy)
        self.base = ROOT
        if rng.random() < 0.5:
            self.base = 'base'
            self._weld(self.base, ROOT, None)

    def body(
        self,
        name: str,
        *,
        on: str,
        axis: Array,
        at: Array,
        mass: Mass | None,
        kind: str | None = None,
        mimic: tuple[str, float] | None = None,
    ) -> str:
        """Add a link moved by joint `<name>_joint`, and return the name of the joint.

        Args:
            name: of the link.
            on: the link that carries it.
            axis: unit vector of the joint, in root axes at q = 0; may be reversed.
            at: any point on the axis.
            mass: what moves, or None for a massless frame.
            kind: 'revolute', 'continuous' or 'prismatic'; one of the first two if not given.
            mimic: joint to follow, and by how much this one moves when that one moves by 1,
                both counted as designed, not as reversed.
        """
        rng = self.rng
        kind = kind or str(rng.choice(['revolute', 'continuous']))
        joint = f'{name}_joint'
        sign = float(rng.choice([-1.0, 1.0]))
        axis = sign * axis
        mimic_element, position = '', 0.0
        if mimic is not None:
            leader, rate = mimic
            multiplier = rate * sign * self._sign[leader]
            offset = rng.uniform(-2.0, 2.0) if rng.random() < 0.7 else 0.0
            position = multiplier * self._position[leader] + offset
            mimic_element = (f'<mimic joint="{leader}" multiplier="{multiplier!r}" '
                             f'offset="{float(offset)!r}"/>')
        self._sign[joint], self._position[joint] = sign, position

        carrier = self._poses[on]
        rpy = self._random_rpy()
        rotation = carrier.rotation @ rotation_of(rpy)  # at joint position 0
        local_axis = rotation.T @ axis
        if kind == 'prismatic':
            origin = at + somewhere(rng, 0.3)  # a slide has no place
            origin_at_zero = origin - position * axis
        else:
            origin = origin_at_zero = at + axis * rng.uniform(-0.3, 0.3)
            rotation = rotation @ rotation_about(local_axis, position)
        self._poses[name] = _Pose(rotation, origin)
        xyz = carrier.rotation.T @ (origin_at_zero - carrier.origin)
        stretched = local_axis * rng.uniform(0.5, 2.0)
        limit = '<limit lower="-4" upper="4" effort="100" velocity="10"/>'
        dynamics = (f'<dynamics damping="{rng.uniform(0.0, 1.0)!r}" '
                    f'friction="{rng.uniform(0.0, 1.0)!r}"/>')
        self._write(
            f'<joint name="{joint}" type="{kind}">', f'<parent link="{on}"/>',
            f'<child link="{name}"/>', f'<origin xyz="{_row(xyz)}" rpy="{_row(rpy)}"/>',
            f'<axis xyz="{_row(stretched)}"/>', '' if kind == 'continuous' else limit, dynamics,
            mimic_element, '</joint>')
        self._write_with_welds(name, mass)
        return joint

    def _write_with_welds(self, name: str, mass: Mass | None) -> None:
        """Write a link whose mass may be spread over links that are fixed onto it."""
        parts = [mass]
        for _ in range(self.rng.integers(0, 3)):
            last = parts.pop()
            parts.extend([None, None] if last is None else last.split(self.rng))
        if len(parts) > 1 and self.rng.random() < 0.3:
            parts.insert(0, None)  # all of the mass sits on welded links
        self._write_link(name, parts[0])
        carrier = name
        for number, part in enumerate(parts[1:], start=1):
            welded = f'{name}_part{number}'
            self._weld(welded, carrier, part)
            carrier = str(self.rng.choice([name, welded]))

    def _weld(self, name: str, on: str, mass: Mass | None) -> None:
        carrier = self._poses[on]
        rpy, xyz = self._random_rpy(), somewhere(self.rng, 0.4)
        self._poses[name] = _Pose(
            carrier.rotation @ rotation_of(rpy), carrier.origin + carrier.rotation @ xyz)
        self._write(
            f'<joint name="{name}_weld" type="fixed">', f'<parent link="{on}"/>',
            f'<child link="{name}"/>', f'<origin xyz="{_row(xyz)}" rpy="{_row(rpy)}"/>',
            '</joint>')
        self._write_link(name, mass)

    def _write_link(self, name: str, mass: Mass | None) -> None:
        if mass is None:
            self._write(f'<link name="{name}"/>')
            return
        pose = self._poses[name]
        rpy = self._random_rpy()
        turn = pose.rotation @ rotation_of(rpy)
        tensor = turn.T @ mass.tensor @ turn
        entries = ' '.join(
            f'{key}="{float(tensor[i, j])!r}"' for key, i, j in (
                ('ixx', 0, 0), ('ixy', 0, 1), ('ixz', 0, 2), ('iyy', 1, 1), ('iyz', 1, 2),
                ('izz', 2, 2)))
        xyz = pose.rotation.T @ (mass.com - pose.origin)
        self._write(
            f'<link name="{name}">', '<inertial>',
            f'<origin xyz="{_row(xyz)}" rpy="{_row(rpy)}"/>',
            f'<mass value="{float(mass.mass)!r}"/>', f'<inertia {entries}/>', '</inertial>',
            '</link>')

    def _random_rpy(self) -> Array:
        return self.rng.uniform(-pi, pi, size=3)

    def _write(self, *lines: str) -> None:
        self._elements.append('\n'.join(line for line in lines if line))

    def text(self) -> str:
        """Return the URDF."""
        elements = list(self._elements)
        if self._shuffle:
            self.rng.shuffle(elements)
        return '\n'.join([f'<robot name={quoteattr(self.name)}>', *elements, '</robot>\n'])


# -- the eight mechanisms --------------------------------------------------------------------


def two_link(rng: Rng, *, point_masses: bool = False, coaxial: bool = False,
             com_2_on_axis: bool = False) -> str:
    """Two parallel revolute joints, anywhere; links of any shape, the first one may be massless.

    Args:
        rng: seeded generator.
        point_masses: the elbow of document 004, without any inertia.
        coaxial: both joints have the same axis, l_1 = 0.
        com_2_on_axis: link 2 is balanced, l_c2 = 0.
    """
    arm = ArmWriter('two_link', rng)
    make = point_mass if point_masses else random_mass
    axis, shoulder = direction(rng), somewhere(rng)
    line = np.zeros(3) if coaxial else rng.uniform(0.1, 0.8) * direction_across(rng, axis)
    elbow = shoulder + line
    massless = not point_masses and rng.random() < 0.1
    com_2 = (elbow + rng.uniform(-0.2, 0.2) * axis) if com_2_on_axis else elbow + somewhere(rng)
    arm.body('upper', on=arm.base, axis=axis, at=shoulder,
             mass=None if massless else make(rng, shoulder + somewhere(rng)))
    arm.body('fore', on='upper', axis=axis, at=elbow, mass=make(rng, com_2))
    return arm.text()


def two_link_remote(rng: Rng) -> str:
    """An elbow whose second joint turns absolutely: a massless carrier takes joint 1 back."""
    arm = ArmWriter('two_link_remote', rng)
    axis, shoulder = direction(rng), somewhere(rng)
    elbow = shoulder + rng.uniform(0.1, 0.8) * direction_across(rng, axis)
    joint_1 = arm.body('upper', on=arm.base, axis=axis, at=shoulder,
                       mass=random_mass(rng, shoulder + somewhere(rng)))
    forearm = random_mass(rng, elbow + somewhere(rng))
    if rng.random() < 0.5:  # first back, then the motor
        arm.body('carrier', on='upper', axis=axis, at=elbow, mass=None, mimic=(joint_1, -1.0))
        arm.body('fore', on='carrier', axis=axis, at=elbow, mass=forearm)
    else:
        arm.body('carrier', on='upper', axis=axis, at=elbow, mass=None)
        arm.body('fore', on='carrier', axis=axis, at=elbow, mass=forearm, mimic=(joint_1, -1.0))
    return arm.text()


def five_bar(rng: Rng) -> str:
    """A parallelogram of two motors on one axis; either of the two passive links may be light."""
    arm = ArmWriter('five_bar', rng)
    axis, pivot = direction(rng), somewhere(rng)
    tip_1, tip_2 = (
        pivot + rng.uniform(0.1, 0.8) * direction_across(rng, axis) for _ in range(2))
    passive = rng.integers(0, 5)  # 0: without link 3, 1: without link 4, else both
    joint_1 = arm.body('link1', on=arm.base, axis=axis, at=pivot,
                       mass=random_mass(rng, pivot + somewhere(rng)))
    joint_2 = arm.body('link2', on=arm.base, axis=axis, at=pivot,
                       mass=random_mass(rng, pivot + somewhere(rng)))

    def passive_link(number: int, at: Array, own: str, other: str) -> None:
        """Hang a link on the tip of the link of motor `own` that turns as `other` does."""
        followed = [(own, -1.0), (other, 1.0)]
        if rng.random() < 0.5:
            followed.reverse()
        back = arm.body(f'carrier{number}', on=f'link{1 if own == joint_1 else 2}', axis=axis,
                        at=at, mass=None, mimic=followed[0])
        leader, rate = followed[1]
        arm.body(f'link{number}', on=f'carrier{number}', axis=axis, at=at,
                 mass=random_mass(rng, at + somewhere(rng)), mimic=(leader, rate))
        assert back == f'carrier{number}_joint'

    if passive != 0:
        passive_link(3, tip_2, joint_2, joint_1)
    if passive != 1:
        passive_link(4, tip_1, joint_1, joint_2)
    return arm.text()


def cartesian(rng: Rng) -> str:
    """Two slides at right angles."""
    slide_1 = direction(rng)
    return _two_slides('cartesian', rng, slide_1, direction_across(rng, slide_1))


def skew_cartesian(rng: Rng) -> str:
    """Two slides at any other angle."""
    slide_1 = direction(rng)
    angle = rng.choice([-1.0, 1.0]) * rng.uniform(0.1, 1.4)
    slide_2 = rotation_about(direction_across(rng, slide_1), angle) @ slide_1
    return _two_slides('skew_cartesian', rng, slide_1, slide_2)


def _two_slides(name: str, rng: Rng, slide_1: Array, slide_2: Array) -> str:
    arm = ArmWriter(name, rng)
    arm.body('carriage', on=arm.base, axis=slide_1, at=somewhere(rng), kind='prismatic',
             mass=random_mass(rng, somewhere(rng)))
    arm.body('ram', on='carriage', axis=slide_2, at=somewhere(rng), kind='prismatic',
             mass=random_mass(rng, somewhere(rng)))
    return arm.text()


def prismatic_revolute(rng: Rng, *, along: bool = False) -> str:
    """A slide that carries a revolute joint of any direction, or one `along` the slide."""
    arm = ArmWriter('prismatic_revolute', rng)
    slide = direction(rng)
    choice = rng.integers(0, 3)
    axis = slide if along else (direction(rng) if choice else direction_across(rng, slide))
    pivot = somewhere(rng)
    arm.body('carriage', on=arm.base, axis=slide, at=somewhere(rng), kind='prismatic',
             mass=random_mass(rng, somewhere(rng)))
    arm.body('lever', on='carriage', axis=axis, at=pivot,
             mass=random_mass(rng, pivot + somewhere(rng)))
    return arm.text()


def spatial_3r(rng: Rng, *, com_3_on_axis: bool = False, massless_2: bool = False) -> str:
    """A column, and two parallel hinges across it; links 2 and 3 are symmetric in their plane.

    Args:
        rng: seeded generator.
        com_3_on_axis: link 3 is balanced, r_2 = 0.
        massless_2: link 2 is a massless rod.
    """
    arm = ArmWriter('spatial_3r', rng)
    column = direction(rng)
    hinge = direction_across(rng, column)
    ahead = np.cross(hinge, column)

    def in_plane(angle: float) -> Array:
        return np.cos(angle) * ahead + np.sin(angle) * column

    def principal_axes(along: Array) -> Array:
        return np.array([hinge, along, np.cross(hinge, along)])

    foot = somewhere(rng)
    shoulder = foot + rng.uniform(-0.5, 0.5) * column
    along_2, along_3 = (in_plane(angle) for angle in rng.uniform(-pi, pi, size=2))
    elbow = shoulder + rng.uniform(0.1, 0.8) * along_2
    com_2 = shoulder + rng.uniform(-0.6, 0.6) * along_2
    com_3 = elbow + (0.0 if com_3_on_axis else rng.uniform(0.05, 0.6)) * along_3
    arm.body('column', on=arm.base, axis=column, at=foot,
             mass=random_mass(rng, foot + somewhere(rng)))
    arm.body('upper', on='column', axis=hinge, at=shoulder,
             mass=None if massless_2 else random_mass(rng, com_2, principal_axes(along_2)))
    arm.body('fore', on='upper', axis=hinge, at=elbow,
             mass=random_mass(rng, com_3, principal_axes(along_3)))
    return arm.text()


def spherical_pendulum(rng: Rng, *, slender: bool | None = None) -> str:
    """A point mass or slender rod on two axes that meet at right angles."""
    arm = ArmWriter('spherical_pendulum', rng)
    axis_1 = direction(rng)
    axis_2 = direction_across(rng, axis_1)
    foot = somewhere(rng)
    pivot = foot + rng.uniform(-0.5, 0.5) * axis_1
    along = rotation_about(axis_2, rng.uniform(-pi, pi)) @ axis_1
    com = pivot + rng.uniform(0.2, 1.0) * along
    bob = point_mass(rng, com)
    if slender if slender is not None else rng.random() < 0.5:
        moment = bob.mass * rng.uniform(0.05, 0.3) ** 2
        bob = Mass(bob.mass, com, moment * np.outer(along, along))
    arm.body('fork', on=arm.base, axis=axis_1, at=foot, mass=None)
    arm.body('rod', on='fork', axis=axis_2, at=pivot, mass=bob)
    return arm.text()


RANDOM_ARMS: dict[str, Callable[[Rng], str]] = {
    'cartesian': cartesian,
    'five_bar': five_bar,
    'prismatic_revolute': prismatic_revolute,
    'skew_cartesian': skew_cartesian,
    'spatial_3r': spatial_3r,
    'spherical_pendulum': spherical_pendulum,
    'two_link': two_link,
    'two_link_remote': two_link_remote,
}


# -- any tree --------------------------------------------------------------------------------


def random_tree(
    rng: Rng,
    joints: int,
    *,
    kinds: tuple[str, ...] = ('revolute', 'continuous', 'prismatic'),
    mimic: bool = True,
    massless: bool = True,
    mimic_ancestors_only: bool = False,
) -> str:
    """Return a branching tree of revolute, continuous and prismatic joints.

    Args:
        rng: seeded generator.
        joints: how many joints move, mimic joints included.
        kinds: of joints to choose from.
        mimic: some joints follow others, also such as follow others themselves.
        massless: some links that carry others are massless.
        mimic_ancestors_only: joints follow only independent joints on their way to the base,
            which is what Pinocchio's own mimic support can do.
    """
    arm = ArmWriter('tree', rng)
    links, made = [arm.base], {}
    parents = [int(rng.integers(0, index + 1)) if rng.random() < 0.4 else index
               for index in range(joints)]
    for index, parent in enumerate(parents):
        is_leaf = index + 1 not in parents
        point = somewhere(rng)
        ancestors, ancestor = [], parent
        while ancestor > 0:
            ancestors.append(ancestor - 1)
            ancestor = parents[ancestor - 1]
        leaders = [index for index in ancestors if made[index][1]] if (
            mimic_ancestors_only) else list(made)
        follows = mimic and bool(leaders) and rng.random() < 0.4
        leader = made[int(rng.choice(leaders))][0] if follows else ''
        joint = arm.body(
            f'link{index + 1}', on=links[parent], axis=direction(rng), at=point,
            kind=str(rng.choice(kinds)),
            mass=None if massless and not is_leaf and rng.random() < 0.2
            else random_mass(rng, point + somewhere(rng)),
            mimic=(leader, float(rng.uniform(-2.0, 2.0))) if follows else None)
        made[index] = (joint, not follows)
        links.append(f'link{index + 1}')
    return arm.text()
