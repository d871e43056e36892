# SPDX-License-Identifier: Apache-2.0
"""What is drawn of an arm is where it is, as large as it is, and points the way it pushes."""

from __future__ import annotations

import re
from itertools import pairwise
from math import pi

import numpy as np
import pytest
from random_arms import random_tree
from shipped import GRAVITIES, States, load, states_within_limits, text_of

from ros_lagdyn import InvalidArgumentError, UnknownNameError, load_dynamics
from ros_lagdyn.arm_drawing import (
    ARC_RADIUS,
    ELLIPSOID,
    FULL_TURN_SHARE,
    LEAST_SHARE,
    LEAST_THICKNESS,
    STRAIGHT_LENGTH,
    ArmDrawer,
    Drawing,
    GravityArrow,
    quaternion_from_rotation,
)
from ros_lagdyn.coordinates import LinearCoordinates, TransformedDynamics
from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.term_scales import TermScales

Array = np.ndarray
STEP = np.finfo(float).eps ** (1 / 3)  # optimal step of a central difference
DIFFERENCE_ERROR = 100 * STEP**2  # its relative error, with two digits of margin
ROUNDING = 1e-12
TOOL = 'tool0'
COUNT = 12  # states per arm


def drawings(dynamics: Dynamics, tool: str = TOOL) -> list[tuple[Array, Array, Drawing]]:
    """Return positions, gravity torques and the drawing of seeded states of an arm."""
    drawer = ArmDrawer(dynamics, tool)
    q = states_within_limits(dynamics, COUNT).q
    return [(row, g, drawer.draw(row, g)) for row, g in zip(q, dynamics.gravity(q), strict=True)]


def with_effort(text: str, effort: str) -> str:
    """Return a URDF with another effort limit of every joint."""
    return re.sub(r'effort="\S+"', f'effort="{effort}"', text)


def scaled(text: str, factor: float) -> str:
    """Return a URDF with every length of it times `factor`; masses stay."""
    def stretched(match: re.Match[str]) -> str:
        numbers = ' '.join(repr(float(number) * factor) for number in match[1].split())
        return f'<origin xyz="{numbers}"'

    def moment(match: re.Match[str]) -> str:
        return f'{match[1]}="{float(match[2]) * factor**2!r}"'

    text = re.sub(r'<origin xyz="([^"]+)"', stretched, text)
    return re.sub(r'\b(i[xyz]{2})="([^"]+)"', moment, text)


# -- centres of mass -------------------------------------------------------------------------


def test_centres_of_mass_add_up_to_the_potential_energy(stem: str, engine: str) -> None:
    """U = -g . sum m c is linear in g, so unit gravity along x, y and z gives sum m c."""
    dynamics = load(stem, engine)
    # The closed form and Pinocchio have the energy from formulas of their own.
    along = [load_dynamics(text_of(stem), engine, e) for e in np.eye(3)]
    for q, _, drawing in drawings(dynamics):
        moment = sum(centre.mass * centre.position for centre in drawing.centres_of_mass)
        expected = [-unit.potential_energy(q) for unit in along]
        np.testing.assert_allclose(moment, expected, rtol=ROUNDING, atol=ROUNDING)


def test_each_centre_of_mass_is_that_of_its_body(stem: str) -> None:
    """Doubling the mass of one body moves sum m c by its own m c, seen by the energy alone."""
    dynamics = load(stem, 'lagrangian')
    text = text_of(stem)
    for index, body in enumerate(dynamics.arm.bodies):
        if body.inertia.mass == 0.0:
            continue
        start = text.index('<mass', text.index(f'<link name="{body.name}">'))
        mass = re.compile(r'<mass value="(\S+)"')
        value = float(mass.match(text, start)[1])
        heavier = text[:start] + mass.sub(f'<mass value="{2 * value!r}"', text[start:], count=1)
        more = [load_dynamics(heavier, 'lagrangian', e) for e in np.eye(3)]
        less = [load_dynamics(text, 'lagrangian', e) for e in np.eye(3)]
        for q, _, drawing in drawings(dynamics):
            (centre,) = [item for item in drawing.centres_of_mass if item.body == index]
            expected = [b.potential_energy(q) - a.potential_energy(q)
                        for a, b in zip(more, less, strict=True)]
            assert centre.mass == value
            np.testing.assert_allclose(
                centre.mass * centre.position, expected, rtol=1e-11, atol=1e-11)


def test_every_body_with_mass_and_no_other_has_a_sphere(stem: str) -> None:
    """Massless carriers have none; volumes are to each other as masses are."""
    dynamics = load(stem, 'lagrangian')
    drawing = ArmDrawer(dynamics, TOOL).draw(
        np.zeros(len(dynamics.joints)), np.zeros(len(dynamics.joints)))
    heavy = [index for index, body in enumerate(dynamics.arm.bodies) if body.inertia.mass > 0.0]
    assert [centre.body for centre in drawing.centres_of_mass] == heavy
    density = [centre.mass / centre.diameter**3 for centre in drawing.centres_of_mass]
    np.testing.assert_allclose(density, density[0], rtol=ROUNDING)


# -- gravity torques -------------------------------------------------------------------------


def turned_angle(arrow: GravityArrow, origin: Array, axis: Array) -> float:
    """Return the angle [rad] that an arc turns around an axis, from start to tip, signed."""
    points = np.vstack([arrow.shaft, arrow.head[1:]]) - origin
    return float(sum(np.arctan2(np.cross(a, b) @ axis, a @ b) for a, b in pairwise(points)))


def child_of(dynamics: Dynamics, joint: int) -> str:
    return dynamics.arm.independent_joints[joint].child


def frame_position(dynamics: Dynamics, q: Array, frame: str) -> Array:
    """Return where a link's origin is (3,) [m], by the kinematics of the engine."""
    fixed_on = dynamics.arm.frame(frame)
    poses = dynamics._kinematics.poses(dynamics._kinematics.tree_positions(q[None]))
    return (poses.origin[0, fixed_on.body]
            + poses.rotation[0, fixed_on.body] @ fixed_on.placement.translation)


@pytest.mark.parametrize('gravity', ['earth', 'tilted'])
def test_arrows_point_the_way_the_motor_pushes(stem: str, gravity: str) -> None:
    """An arc turns by 3/4 turn * g_i / limit around the joint's axis; a slide's is straight."""
    dynamics = load(stem, 'lagrangian', GRAVITIES[gravity])
    limits = [joint.limit.effort for joint in dynamics.arm.independent_joints]
    size = ArmDrawer(dynamics, TOOL).size
    seen = 0
    for q, g, drawing in drawings(dynamics):
        for joint, arrow in enumerate(drawing.gravity_arrows):
            share = g[joint] / limits[joint]
            if abs(share) < LEAST_SHARE:
                assert arrow is None
                continue
            seen += 1
            assert arrow.joint == joint
            np.testing.assert_allclose(arrow.share, share, rtol=ROUNDING)
            assert arrow.beyond_limit == (abs(share) > 1.0)
            shown = min(max(share, -1.0), 1.0)
            child = child_of(dynamics, joint)
            linear, angular = dynamics.frame_jacobian(q, child)[:, joint].reshape(2, 3)
            origin = frame_position(dynamics, q, child)
            tip = arrow.head[1] - origin
            np.testing.assert_array_equal(arrow.shaft[-1], arrow.head[0])
            if dynamics.arm.independent_joints[joint].turns:
                angle = turned_angle(arrow, origin, angular)
                np.testing.assert_allclose(angle, FULL_TURN_SHARE * 2 * pi * shown, rtol=1e-9)
                points = np.vstack([arrow.shaft, arrow.head]) - origin
                np.testing.assert_allclose(points @ angular, 0.0, atol=ROUNDING)
                np.testing.assert_allclose(
                    np.linalg.norm(points, axis=1), ARC_RADIUS * size, rtol=1e-9)
                assert np.cross(arrow.head[0] - origin, tip) @ angular * g[joint] > 0.0
            else:
                np.testing.assert_allclose(arrow.shaft[0], origin, atol=ROUNDING)
                np.testing.assert_allclose(
                    tip, STRAIGHT_LENGTH * size * shown * linear, rtol=1e-9, atol=ROUNDING)
                assert (arrow.head[1] - arrow.head[0]) @ linear * g[joint] > 0.0
    assert seen > 0


def test_following_an_arrow_lifts_the_arm(stem: str) -> None:
    """The motor pushes against gravity: a step along the arrow raises the potential energy."""
    dynamics = load(stem, 'closed_form')
    for q, _, drawing in drawings(dynamics):
        for joint, arrow in enumerate(drawing.gravity_arrows):
            if arrow is None:
                continue
            step = np.zeros(len(q))
            child = child_of(dynamics, joint)
            linear, angular = dynamics.frame_jacobian(q, child)[:, joint].reshape(2, 3)
            if dynamics.arm.independent_joints[joint].turns:
                step[joint] = turned_angle(arrow, frame_position(dynamics, q, child), angular)
            else:
                step[joint] = (arrow.head[1] - arrow.shaft[0]) @ linear
            step *= STEP / np.linalg.norm(step)
            assert dynamics.potential_energy(q + step) > dynamics.potential_energy(q - step)


def test_half_the_effort_limit_doubles_the_angle() -> None:
    """Angles are proportional to g / limit until 3/4 of a turn, where they stop."""
    text = text_of('two_link')
    q = np.array([0.4, 0.3])
    angles = []
    for effort in ('800', '400', '200', '0.1'):
        dynamics = load_dynamics(with_effort(text, effort))
        drawing = ArmDrawer(dynamics, TOOL).draw(q, dynamics.gravity(q))
        arrow = drawing.gravity_arrows[0]
        linear_angular = dynamics.frame_jacobian(q, 'link1')[:, 0]
        origin = frame_position(dynamics, q, 'link1')
        angles.append(turned_angle(arrow, origin, linear_angular[3:]))
        assert arrow.beyond_limit == (effort == '0.1')
    np.testing.assert_allclose(angles[1] / angles[0], 2.0, rtol=1e-9)
    np.testing.assert_allclose(angles[2] / angles[1], 2.0, rtol=1e-9)
    np.testing.assert_allclose(angles[3], 1.5 * pi, rtol=1e-9)


@pytest.mark.parametrize('endless', [False, True])
def test_without_an_effort_limit_arrows_compare_with_the_most_gravity_can_do(
        stem: str, endless: bool) -> None:
    """Then 3/4 of a turn is the largest gravity torque, and no arrow is beyond its limit."""
    text = with_effort(text_of(stem), '0')
    if endless:  # a continuous joint needs no <limit>: its effort is infinite
        text = re.sub(r'(<joint name="\w+" type=)"revolute"(.*?)<limit [^>]*/>',
                      r'\1"continuous"\2', text, flags=re.DOTALL)
    dynamics = load_dynamics(text, 'lagrangian')
    for joint in dynamics.arm.independent_joints:
        assert joint.limit.effort == (np.inf if endless and joint.turns else 0.0)
    most = TermScales(dynamics).G
    for _, g, drawing in drawings(dynamics):
        for joint, arrow in enumerate(drawing.gravity_arrows):
            assert (arrow is None) == (abs(g[joint]) < LEAST_SHARE * most[joint])
            if arrow is not None:
                assert abs(arrow.share) <= 1.0 and not arrow.beyond_limit
                np.testing.assert_allclose(arrow.share, g[joint] / most[joint], rtol=ROUNDING)


@pytest.mark.parametrize('effort', ['0', '10', '1e-320'])
def test_without_gravity_there_is_no_arrow(stem: str, effort: str) -> None:
    """No torque, no arrow, and no division of 0 by 0."""
    dynamics = load_dynamics(
        with_effort(text_of(stem), effort), 'lagrangian', GRAVITIES['none'])
    for q, _, drawing in drawings(dynamics):
        zero = np.zeros(len(q))
        assert drawing.gravity_arrows == (None,) * len(q)
        assert ArmDrawer(dynamics, TOOL).draw(q, zero).gravity_arrows == (None,) * len(q)


def test_tiny_effort_limit_gives_a_finite_arrow() -> None:
    """A limit so small that g / limit overflows is drawn as the longest arc."""
    dynamics = load_dynamics(with_effort(text_of('two_link'), '1e-310'))
    for _, _, drawing in drawings(dynamics):
        for arrow in drawing.gravity_arrows:
            assert np.isfinite(arrow.shaft).all() and arrow.beyond_limit


# -- ellipsoid -------------------------------------------------------------------------------


def test_ellipsoid_stands_at_the_tool(stem: str) -> None:
    """A point mass at the tool changes the energy in unit gravity by -m times its place."""
    text = text_of(stem)
    mass = ('<link name="tool0"><inertial><mass value="1"/><inertia ixx="0" ixy="0" ixz="0" '
            'iyy="0" iyz="0" izz="0"/></inertial></link>')
    heavier = text.replace('<link name="tool0"/>', mass)
    assert heavier != text
    more = [load_dynamics(heavier, 'lagrangian', e) for e in np.eye(3)]
    less = [load_dynamics(text, 'lagrangian', e) for e in np.eye(3)]
    for q, _, drawing in drawings(load(stem, 'lagrangian')):
        expected = [b.potential_energy(q) - a.potential_energy(q)
                    for a, b in zip(more, less, strict=True)]
        np.testing.assert_allclose(drawing.ellipsoid.centre, expected, rtol=1e-11, atol=1e-11)


def test_ellipsoid_is_that_of_a_finite_difference_jacobian(stem: str, engine: str) -> None:
    """R diag(semi-axes^2) R' = scale^2 J_v M^-1 J_v', where it is not thinner than the least."""
    dynamics = load(stem, engine)
    drawer = ArmDrawer(dynamics, TOOL)
    least = LEAST_THICKNESS * drawer.size
    zero = np.zeros(len(dynamics.joints))

    def tool(q: Array) -> Array:
        return drawer.draw(q, zero).ellipsoid.centre

    for q, _, drawing in drawings(dynamics):
        J_v = np.column_stack([
            (tool(q + STEP * e) - tool(q - STEP * e)) / (2.0 * STEP) for e in np.eye(len(q))])
        A = drawer.ellipsoid_scale**2 * J_v @ np.linalg.inv(dynamics.mass_matrix(q)) @ J_v.T
        values = np.linalg.eigvalsh(A)[::-1]
        ellipsoid = drawing.ellipsoid
        R = ellipsoid.rotation
        np.testing.assert_allclose(R @ R.T, np.eye(3), atol=ROUNDING)
        np.testing.assert_allclose(np.linalg.det(R), 1.0, rtol=ROUNDING)
        atol = 10.0 * DIFFERENCE_ERROR * values[0]
        np.testing.assert_allclose(
            ellipsoid.semi_axes**2, np.maximum(values, least**2), rtol=0.0, atol=atol)
        # Its own directions: A has no mixed entries along them.
        along = R.T @ A @ R
        np.testing.assert_allclose(along, np.diag(np.diag(along)), rtol=0.0, atol=atol)
        assert (np.diff(np.diag(along)) <= atol).all()  # longest first


def test_planar_arm_has_a_flat_ellipsoid() -> None:
    """The two-link arm cannot leave its plane: the third semi-axis is across, and thin."""
    dynamics = load('two_link', 'closed_form')
    least = LEAST_THICKNESS * ArmDrawer(dynamics, TOOL).size
    for q, _, drawing in drawings(dynamics):
        axis = dynamics.frame_jacobian(q, TOOL)[3:, 0]
        assert drawing.ellipsoid.semi_axes[2] == least
        np.testing.assert_allclose(abs(drawing.ellipsoid.rotation[:, 2] @ axis), 1.0, rtol=1e-9)


def test_ellipsoid_is_long_where_the_moved_mass_is_small() -> None:
    """Long means easy to accelerate: a cartesian arm has semi-axes as 1 / sqrt(moved mass)."""
    dynamics = load('cartesian', 'closed_form')  # 6.5 kg and 2.5 kg
    (_, _, drawing), *_ = drawings(dynamics)
    longest, second, _ = drawing.ellipsoid.semi_axes
    np.testing.assert_allclose(longest / second, np.sqrt(6.5 / 2.5), rtol=1e-9)
    direction = dynamics.frame_jacobian(np.zeros(2), TOOL)[:3, 1]
    np.testing.assert_allclose(abs(drawing.ellipsoid.rotation[:, 0] @ direction), 1.0, rtol=1e-9)


def test_pole_of_the_pendulum_has_no_ellipsoid(engine: str) -> None:
    """Where M has lost rank nothing is drawn; a step beside it there is an ellipsoid again."""
    dynamics = load('spherical_pendulum', engine)
    drawer = ArmDrawer(dynamics, TOOL)
    zero = np.zeros(2)
    assert drawer.draw([0.3, 0.0], zero).ellipsoid is None
    assert drawer.draw([0.3, 0.01], zero).ellipsoid is not None


def test_tool_on_the_base_has_no_ellipsoid() -> None:
    """What cannot move has no ellipsoid."""
    for _, _, drawing in drawings(load('two_link', 'closed_form'), 'base_link'):
        assert drawing.ellipsoid is None


def test_quaternion_turns_as_the_rotation_does() -> None:
    """x, y, z, w of random rotations, and of half turns, rebuild the matrix."""
    rng = np.random.default_rng(5)
    rotations = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(100)]
    rotations = [R * np.linalg.det(R) for R in rotations]
    rotations += [np.eye(3), *(np.diag(d) for d in ([1, -1, -1], [-1, 1, -1], [-1, -1, 1]))]
    for R in rotations:
        x, y, z, w = quaternion = quaternion_from_rotation(np.asarray(R, dtype=float))
        np.testing.assert_allclose(np.linalg.norm(quaternion), 1.0, rtol=1e-15)
        K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        np.testing.assert_allclose(np.eye(3) + 2.0 * w * K + 2.0 * K @ K, R, atol=1e-14)


# -- sizes and bad input ---------------------------------------------------------------------


@pytest.mark.parametrize('factor', [0.1, 10.0])
@pytest.mark.parametrize('stem', ['two_link', 'spatial_3r', 'five_bar'])
def test_drawing_grows_with_the_arm(stem: str, factor: float) -> None:
    """An arm ten times as large looks the same from ten times as far."""
    text = with_effort(text_of(stem), '0')
    plain, large = load_dynamics(text, 'lagrangian'), load_dynamics(
        scaled(text, factor), 'lagrangian')
    for (_, _, a), (_, _, b) in zip(drawings(plain), drawings(large), strict=True):
        for c, d in zip(a.centres_of_mass, b.centres_of_mass, strict=True):
            np.testing.assert_allclose(d.diameter, factor * c.diameter, rtol=1e-9)
        for c, d in zip(a.gravity_arrows, b.gravity_arrows, strict=True):
            assert (c is None) == (d is None)
            if c is not None:
                np.testing.assert_allclose(d.shaft, factor * c.shaft, rtol=1e-7, atol=1e-9)
                np.testing.assert_allclose(d.head_width, factor * c.head_width, rtol=1e-7)
        np.testing.assert_allclose(
            b.ellipsoid.semi_axes, factor * a.ellipsoid.semi_axes, rtol=1e-9)


def test_everything_has_a_sensible_size(stem: str) -> None:
    """The size is about the arm's reach; a typical ellipsoid is a fifth of it."""
    dynamics = load(stem, 'lagrangian')
    drawer = ArmDrawer(dynamics, TOOL)
    assert 0.3 < drawer.size < 3.0  # all shipped arms stand on a table
    longest = [drawing.ellipsoid.semi_axes[0] for _, _, drawing in drawings(dynamics)]
    assert 0.5 * ELLIPSOID < np.median(longest) / drawer.size < 2.0 * ELLIPSOID
    assert max(longest) < drawer.size


def test_slide_without_sensible_limits_does_not_blow_up_the_drawing() -> None:
    """Limits of a thousand kilometres mean that there are none."""
    text = re.sub(r'<limit lower="\S+" upper="\S+"', '<limit lower="-1e6" upper="1e6"',
                  text_of('cartesian'))
    assert ArmDrawer(load_dynamics(text), TOOL).size < 5.0


@pytest.mark.parametrize('seed', range(6))
def test_any_tree_is_drawn(seed: int) -> None:
    """Random trees, with every kind of joint: all numbers finite, sizes positive."""
    dynamics = load_dynamics(random_tree(np.random.default_rng(seed), 5), 'lagrangian')
    for tool in dynamics.arm.frames:
        for _, _, drawing in drawings(dynamics, tool):
            for centre in drawing.centres_of_mass:
                assert np.isfinite(centre.position).all() and centre.diameter > 0.0
            for arrow in drawing.gravity_arrows:
                if arrow is not None:
                    assert np.isfinite(arrow.shaft).all() and np.isfinite(arrow.head).all()
                    assert min(arrow.line_width, arrow.head_width, arrow.head_length) > 0.0
            if drawing.ellipsoid is not None:
                assert np.isfinite(drawing.ellipsoid.quaternion).all()
                assert (drawing.ellipsoid.semi_axes > 0.0).all()


def test_bad_input_is_refused_with_the_reason(states: States, dynamics: Dynamics) -> None:
    """Unknown tool, other coordinates, a batch, a NaN, a wrong length."""
    with pytest.raises(UnknownNameError, match='no_such_link'):
        ArmDrawer(dynamics, 'no_such_link')
    n = len(dynamics.joints)
    with pytest.raises(InvalidArgumentError, match='joint positions'):
        ArmDrawer(TransformedDynamics(dynamics, LinearCoordinates(2.0 * np.eye(n))), TOOL)
    drawer = ArmDrawer(dynamics, TOOL)
    with pytest.raises(InvalidArgumentError, match='batch'):
        drawer.draw(states.q, states.q)
    with pytest.raises(InvalidArgumentError, match='g must be finite'):
        drawer.draw(np.zeros(n), np.full(n, np.nan))
    with pytest.raises(InvalidArgumentError, match='q must have shape'):
        drawer.draw(np.zeros(n + 1), np.zeros(n))
