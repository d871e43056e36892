# SPDX-License-Identifier: Apache-2.0
"""An arm as data: the moving bodies of a URDF, its mimic map and its frames, in SI units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from ros_lagdyn.errors import UnknownNameError
from ros_lagdyn.rigid_body import Array, Inertia, Placement

BASE = -1  # the index that stands for the fixed base where a body index is expected


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Range of a joint. Units are rad, rad/s and Nm, or m, m/s and N for a prismatic joint."""

    lower: float = -inf
    upper: float = inf
    effort: float = inf
    velocity: float = inf


@dataclass(frozen=True, kw_only=True)
class Mimic:
    """This joint's position is multiplier * position of `joint` + offset."""

    joint: str
    multiplier: float
    offset: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint:
    """A joint as the URDF has it."""

    name: str
    kind: str  # 'revolute', 'continuous', 'prismatic' or 'fixed'
    parent: str  # link
    child: str  # link
    placement: Placement  # of the child's frame in the parent's frame, at joint position 0
    axis: Array  # (3,) unit vector, in the child's frame
    limit: Limit
    damping: float  # [Nm s/rad] or [N s/m]
    friction: float  # [Nm] or [N]
    mimic: Mimic | None

    @property
    def turns(self) -> bool:
        """Say whether the joint turns; a prismatic one slides."""
        return self.kind in ('revolute', 'continuous')


@dataclass(frozen=True, kw_only=True, eq=False)
class Body:
    """A link moved by a joint, together with every link fixed onto it."""

    name: str  # of the link that the joint moves
    joint: Joint
    parent: int  # index of the body that carries the joint, or BASE
    placement: Placement  # of this body's frame in the parent body's frame, at position 0
    inertia: Inertia  # in this body's frame
    links: tuple[str, ...]  # all links merged into this body


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """A URDF link as a frame fixed on a moving body, or on the base."""

    body: int  # index of the body, or BASE
    placement: Placement  # of the link's frame in the body's frame


@dataclass(frozen=True, kw_only=True, eq=False)
class Arm:
    """A tree of moving bodies driven by independent joints.

    Bodies stand in tree order: a parent before its children. Body b is moved by tree joint b.
    Tree positions follow from the independent ones by q_tree = projection q + offset.
    """

    name: str
    joints: tuple[str, ...]  # independent joints, in tree order
    bodies: tuple[Body, ...]
    frames: Mapping[str, Frame]  # by link name
    projection: Array  # P, shape (tree joints, independent joints)
    offset: Array  # (tree joints,)

    @property
    def has_mimic(self) -> bool:
        """Say whether some joint follows another one."""
        return len(self.bodies) > len(self.joints)

    @cached_property
    def independent_joints(self) -> tuple[Joint, ...]:
        """The independent joints themselves, in the order of `joints`."""
        by_name = {body.joint.name: body.joint for body in self.bodies}
        return tuple(by_name[name] for name in self.joints)

    @cached_property
    def moved_by(self) -> Array:
        """1 where a tree joint moves a body, else 0; shape (bodies, tree joints)."""
        moved = np.eye(len(self.bodies))
        for index, body in enumerate(self.bodies):
            if body.parent != BASE:
                moved[index] += moved[body.parent]
        return moved

    def frame(self, name: str) -> Frame:
        """Return the frame of a link.

        Raises:
            UnknownNameError: the arm has no link of this name.
        """
        if not isinstance(name, str) or name not in self.frames:
            raise UnknownNameError('frame', str(name), tuple(self.frames))
        return self.frames[name]
