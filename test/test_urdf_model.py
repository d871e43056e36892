# SPDX-License-Identifier: Apache-2.0
"""A URDF becomes an Arm: merged links, joint order, limits, damping, mimic map and frames."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from math import inf, pi

import numpy as np
import pinocchio as pin
import pytest
from random_arms import RANDOM_ARMS, random_tree, rotation_of
from shipped import SEED, SHIPPED, load, text_of

from ros_lagdyn.arm import BASE
from ros_lagdyn.dynamics import load_dynamics
from ros_lagdyn.errors import UnknownNameError
from ros_lagdyn.rigid_body import Inertia, Placement, rotation_from_rpy, skew
from ros_lagdyn.urdf_model import load_arm

EPS = np.finfo(float).eps
# Positions of about 2 m pass through a handful of rotations.
ROUNDING = 100 * EPS

LINK = ('<link name="{0}"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" '
        'iyz="0" izz="1"/></inertial></link>')


def joint(name: str, parent: str, child: str, kind: str = 'continuous', inside: str = '') -> str:
    return (f'<joint name="{name}" type="{kind}"><parent link="{parent}"/>'
            f'<child link="{child}"/>{inside}</joint>')


def robot(*elements: str, name: str = 'robot') -> str:
    return f'<robot name="{name}">' + ''.join(elements) + '</robot>'


def links(*names: str) -> str:
    return ''.join(LINK.format(name) for name in names)


def random_texts(count: int) -> list[str]:
    """Return random trees and random arms."""
    texts = []
    for number in range(count):
        rng = np.random.default_rng([SEED, number, 8])
        texts.append(random_tree(rng, 1 + number % 7))
        texts.append(RANDOM_ARMS[SHIPPED[number % 8]](rng))
    return texts


# -- merged links ----------------------------------------------------------------------------


def test_merged_inertias_are_those_of_pinocchio():
    """Mass, centre of mass and tensor of each body, after welding, are what Pinocchio finds."""
    for text in random_texts(24):
        model = pin.buildModelFromXML(text)
        for body in load_arm(text).bodies:
            expected = model.inertias[model.getJointId(body.joint.name)]
            assert body.inertia.mass == pytest.approx(expected.mass, rel=ROUNDING, abs=0.0)
            if body.inertia.mass == 0.0:
                continue
            scale = expected.mass * 4.0  # [kg m^2], at most 2 m from the frame
            np.testing.assert_allclose(body.inertia.com, expected.lever, rtol=0.0,
                                       atol=2.0 * ROUNDING)
            np.testing.assert_allclose(body.inertia.tensor, expected.inertia, rtol=0.0,
                                       atol=ROUNDING * scale)


def test_merged_inertias_are_those_of_their_points():
    """A body of point masses, welded in links of their own, is the sum over its points."""
    rng = np.random.default_rng(SEED)
    elements, masses, points = [links('base', 'body'), joint('j', 'base', 'body')], [1.0], [
        np.zeros(3)]
    for number in range(5):
        xyz, rpy, local = rng.uniform(-1.0, 1.0, size=(3, 3))
        mass = rng.uniform(0.5, 2.0)
        elements.append(
            f'<link name="part{number}"><inertial>'
            f'<origin xyz="{" ".join(map(repr, local.tolist()))}" rpy="1 2 3"/>'
            f'<mass value="{mass!r}"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/>'
            '</inertial></link>')
        elements.append(joint(
            f'weld{number}', 'body', f'part{number}', 'fixed',
            f'<origin xyz="{" ".join(map(repr, xyz.tolist()))}" '
            f'rpy="{" ".join(map(repr, rpy.tolist()))}"/>'))
        masses.append(mass)
        points.append(rotation_of(rpy) @ local + xyz)
    (body,) = load_arm(robot(*elements)).bodies
    m, x = np.array(masses), np.array(points)
    com = m @ x / m.sum()
    d = x - com
    # The link itself is a unit sphere of 1 kg; the others are points.
    tensor = np.eye(3) + sum(
        m_i * (d_i @ d_i * np.eye(3) - np.outer(d_i, d_i)) for m_i, d_i in zip(m, d, strict=True))
    assert body.inertia.mass == pytest.approx(m.sum(), rel=ROUNDING)
    np.testing.assert_allclose(body.inertia.com, com, rtol=0.0, atol=ROUNDING)
    np.testing.assert_allclose(body.inertia.tensor, tensor, rtol=0.0, atol=ROUNDING * m.sum())
    assert body.links == ('body', *(f'part{number}' for number in range(5)))


def test_links_fixed_onto_the_base_do_not_move():
    """What is welded to the root is base, and so are the joints on it."""
    arm = load_arm(robot(
        links('root', 'pedestal', 'cap', 'arm'), joint('a', 'root', 'pedestal', 'fixed'),
        joint('b', 'pedestal', 'cap', 'fixed', '<origin xyz="0 0 1" rpy="0 0 0.5"/>'),
        joint('c', 'cap', 'arm', inside='<origin xyz="1 0 0"/>')))
    (body,) = arm.bodies
    assert body.parent == BASE
    assert body.links == ('arm',)
    assert body.inertia.mass == 1.0
    np.testing.assert_allclose(
        body.placement.translation, [np.cos(0.5), np.sin(0.5), 1.0], rtol=ROUNDING)
    assert all(arm.frame(name).body == BASE for name in ('root', 'pedestal', 'cap'))


def test_a_massless_frame_leaves_the_centre_of_mass_to_the_last_bit():
    """Welding nothing onto a link changes nothing."""
    text = text_of('two_link')
    head, tool, _ = text.partition('<link name="tool0"/>')
    assert tool
    with_tool = load_arm(text).bodies[1].inertia
    without = load_arm(head + '</robot>').bodies[1].inertia
    assert with_tool.mass == without.mass
    np.testing.assert_array_equal(with_tool.com, without.com)
    np.testing.assert_array_equal(with_tool.tensor, without.tensor)


# -- order -----------------------------------------------------------------------------------


def test_joints_come_depth_first_in_the_order_of_the_file():
    """Parents before children; of siblings, the one that the file has first."""
    arm = load_arm(robot(
        joint('tip', 'b', 'c'), joint('right', 'base', 'd'), joint('left', 'base', 'a'),
        joint('mid', 'a', 'b'), joint('side', 'a', 'e'), links('c', 'b', 'a', 'e', 'd', 'base')))
    assert arm.joints == ('right', 'left', 'mid', 'tip', 'side')
    assert [body.name for body in arm.bodies] == ['d', 'a', 'b', 'c', 'e']
    assert [body.parent for body in arm.bodies] == [BASE, BASE, 1, 2, 1]


@pytest.mark.parametrize('stem', SHIPPED)
def test_shuffled_documents_are_the_same_arm(stem):
    """The order of elements does not change the arm, except for the order of siblings."""
    original = load_arm(text_of(stem))
    root = ElementTree.fromstring(text_of(stem))
    for number in range(5):
        rng = np.random.default_rng([SEED, number])
        elements = list(root)
        rng.shuffle(elements)
        shuffled = ElementTree.Element('robot', root.attrib)
        shuffled.extend(elements)
        arm = load_arm(ElementTree.tostring(shuffled, encoding='unicode'))
        assert set(arm.joints) == set(original.joints)
        if stem != 'five_bar':  # the only shipped arm with siblings
            assert arm.joints == original.joints
        by_name = {body.name: body for body in original.bodies}
        rows = {body.joint.name: row for row, body in enumerate(original.bodies)}
        for index, body in enumerate(arm.bodies):
            assert body.parent < index
            same = by_name[body.name]
            np.testing.assert_allclose(body.inertia.tensor, same.inertia.tensor, rtol=ROUNDING,
                                       atol=EPS)
            row = original.projection[rows[body.joint.name]]
            columns = [original.joints.index(name) for name in arm.joints]
            np.testing.assert_array_equal(arm.projection[index], row[columns])


def test_parents_stand_before_their_children():
    """Bodies stand in tree order whatever the document's order."""
    for text in random_texts(20):
        arm = load_arm(text)
        for index, body in enumerate(arm.bodies):
            assert BASE <= body.parent < index
            assert arm.moved_by[index, index] == 1.0
        by_name = {body.joint.name: body.joint for body in arm.bodies}
        assert [by_name[name].name for name in arm.joints] == list(arm.joints)
        assert tuple(item.name for item in arm.independent_joints) == arm.joints


# -- joints ----------------------------------------------------------------------------------


def test_limits_are_read():
    """Lower, upper, effort and velocity; a continuous joint has no range."""
    limit = '<limit lower="-1.5" upper="2" effort="30" velocity="4"/>'
    arm = load_arm(robot(
        links('base', 'a', 'b', 'c', 'd'), joint('ra', 'base', 'a', 'revolute', limit),
        joint('cb', 'a', 'b', 'continuous', limit), joint('cc', 'b', 'c', 'continuous'),
        joint('pd', 'c', 'd', 'prismatic', '<limit effort="1" velocity="2"/>')))
    found = [(item.limit.lower, item.limit.upper, item.limit.effort, item.limit.velocity)
             for item in arm.independent_joints]
    assert found == [(-1.5, 2.0, 30.0, 4.0), (-inf, inf, 30.0, 4.0), (-inf, inf, inf, inf),
                     (0.0, 0.0, 1.0, 2.0)]


def test_damping_and_friction_are_read():
    """Damping and friction default to 0."""
    arm = load_arm(robot(
        links('base', 'a', 'b', 'c'),
        joint('ja', 'base', 'a', inside='<dynamics damping="0.5" friction="0.25"/>'),
        joint('jb', 'a', 'b', inside='<dynamics damping="0.5"/>'), joint('jc', 'b', 'c')))
    assert [(item.damping, item.friction) for item in arm.independent_joints] == [
        (0.5, 0.25), (0.5, 0.0), (0.0, 0.0)]


def test_friction_is_no_part_of_the_equation_of_motion(stem, engine):
    """M a + C v + g is the same arm with or without damping."""
    root = ElementTree.fromstring(text_of(stem))
    for item in root.iter('joint'):
        for element in item.findall('dynamics'):
            item.remove(element)
    smooth = load_dynamics(ElementTree.tostring(root, encoding='unicode'), engine)
    state = np.full((3, len(smooth.joints)), 0.7)
    np.testing.assert_array_equal(
        smooth.inverse_dynamics(*state), load(stem, engine).inverse_dynamics(*state))


def test_axes_are_unit_vectors_and_default_to_x():
    """URDF's default axis is x; an axis of any length is a direction."""
    arm = load_arm(robot(
        links('base', 'a', 'b'), joint('ja', 'base', 'a'),
        joint('jb', 'a', 'b', inside='<axis xyz="0 -3 4"/>')))
    np.testing.assert_array_equal(arm.bodies[0].joint.axis, [1.0, 0.0, 0.0])
    np.testing.assert_allclose(arm.bodies[1].joint.axis, [0.0, -0.6, 0.8], rtol=2 * EPS)


def test_kinds_say_whether_a_joint_turns():
    """Revolute and continuous joints turn, prismatic ones slide."""
    limit = '<limit effort="1" velocity="1"/>'
    arm = load_arm(robot(
        links('base', 'a', 'b', 'c'), joint('ja', 'base', 'a', 'revolute', limit),
        joint('jb', 'a', 'b', 'continuous'), joint('jc', 'b', 'c', 'prismatic', limit)))
    assert [item.turns for item in arm.independent_joints] == [True, True, False]


# -- mimic -----------------------------------------------------------------------------------


def test_mimic_tags_become_projection_and_offset():
    """q_tree = P q + offset, also through a mimic of a mimic, and with defaults 1 and 0."""
    arm = load_arm(robot(
        links('base', 'a', 'b', 'c', 'd', 'e'),
        joint('a_mimic', 'base', 'a',
              inside='<mimic joint="c_mimic" multiplier="3" offset="0.5"/>'),
        joint('lead', 'a', 'b'),
        joint('c_mimic', 'b', 'c', inside='<mimic joint="lead" multiplier="-2" offset="0.25"/>'),
        joint('other', 'c', 'd'), joint('e_mimic', 'd', 'e', inside='<mimic joint="other"/>')))
    assert arm.joints == ('lead', 'other')
    assert arm.has_mimic
    np.testing.assert_array_equal(
        arm.projection, [[-6.0, 0.0], [1.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    np.testing.assert_array_equal(arm.offset, [1.25, 0.0, 0.25, 0.0, 0.0])


@pytest.mark.parametrize(('stem', 'projection'), [
    ('two_link_remote', {'joint1': (1, 0), 'joint1_level': (-1, 0), 'joint2': (0, 1)}),
    ('five_bar', {'joint1': (1, 0), 'joint1_level': (-1, 0), 'joint4': (0, 1),
                  'joint2': (0, 1), 'joint2_level': (0, -1), 'joint3': (1, 0)}),
])
def test_projections_of_the_shipped_arms(stem, projection):
    """The passive joints follow the two motors as the URDF's comments say."""
    arm = load_arm(text_of(stem))
    assert arm.joints == ('joint1', 'joint2')
    found = {body.joint.name: tuple(row) for body, row in zip(
        arm.bodies, arm.projection, strict=True)}
    assert found == projection
    np.testing.assert_array_equal(arm.offset, 0.0)


def test_arms_without_mimic_joints_have_the_identity():
    """Without a mimic tag P is the identity."""
    arm = load_arm(text_of('spatial_3r'))
    assert not arm.has_mimic
    np.testing.assert_array_equal(arm.projection, np.eye(3))


# -- frames ----------------------------------------------------------------------------------


def test_every_link_is_a_frame():
    """Links on fixed joints keep their frames, where Pinocchio has them."""
    for text in random_texts(12):
        arm = load_arm(text)
        model = pin.buildModelFromXML(text)
        assert set(arm.frames) == {
            link.attrib['name'] for link in ElementTree.fromstring(text).iter('link')}
        for name, frame in arm.frames.items():
            expected = model.frames[model.getFrameId(name, pin.FrameType.BODY)]
            on = BASE if expected.parentJoint == 0 else [
                body.joint.name for body in arm.bodies].index(model.names[expected.parentJoint])
            assert frame.body == on
            np.testing.assert_allclose(frame.placement.translation, expected.placement.translation,
                                       rtol=0.0, atol=2.0 * ROUNDING)
            np.testing.assert_allclose(frame.placement.rotation, expected.placement.rotation,
                                       rtol=0.0, atol=ROUNDING)


def test_an_unknown_frame_is_an_error_that_lists_the_frames():
    """A frame that does not exist is named, with those that do."""
    with pytest.raises(UnknownNameError, match=r'unknown frame "flange".*base_link.*tool0'):
        load_arm(text_of('two_link')).frame('flange')


def test_names_are_those_of_the_document():
    """The arm is named after the robot, bodies after the links that their joints move."""
    for stem in SHIPPED:
        assert load_arm(text_of(stem)).name == stem
    assert [body.name for body in load_arm(text_of('two_link')).bodies] == ['link1', 'link2']
    assert load_arm(text_of('two_link')).bodies[1].links == ('link2', 'tool0')


# -- placements and inertias -----------------------------------------------------------------


def test_rpy_is_a_rotation_about_fixed_axes():
    """R = Rz(yaw) Ry(pitch) Rx(roll), as URDF defines it."""
    for rpy in np.random.default_rng(SEED).uniform(-pi, pi, size=(50, 3)):
        np.testing.assert_allclose(rotation_from_rpy(*rpy), rotation_of(rpy), rtol=0.0,
                                   atol=8 * EPS)


def test_placements_chain():
    """(A B) x = A (B x)."""
    rng = np.random.default_rng(SEED)
    a, b = (Placement(rotation=rotation_of(rng.uniform(-pi, pi, 3)),
                      translation=rng.uniform(-1.0, 1.0, 3)) for _ in range(2))
    x = rng.uniform(-1.0, 1.0, 3)
    inner = b.rotation @ x + b.translation
    np.testing.assert_allclose(
        (a @ b).rotation @ x + (a @ b).translation, a.rotation @ inner + a.translation,
        rtol=0.0, atol=16 * EPS)


def test_inertias_add_in_any_order():
    """Welding is associative and commutative, and nothing is neutral."""
    rng = np.random.default_rng(SEED)
    parts = []
    for _ in range(3):
        root = rng.normal(size=(3, 3))
        moments = root @ root.T
        parts.append(Inertia(mass=rng.uniform(0.5, 2.0), com=rng.uniform(-1.0, 1.0, 3),
                             tensor=np.trace(moments) * np.eye(3) - moments))
    a, b, c = parts
    for left, right in (((a + b) + c, a + (b + c)), (a + b, b + a), (a + Inertia.zero(), a),
                        (Inertia.zero() + a, a)):
        assert left.mass == pytest.approx(right.mass, rel=4 * EPS)
        np.testing.assert_allclose(left.com, right.com, rtol=0.0, atol=16 * EPS)
        np.testing.assert_allclose(left.tensor, right.tensor, rtol=0.0,
                                   atol=64 * EPS * abs(right.tensor).max())
    # Steiner, for one axis through a point: I + m d^2.
    point, axis = rng.uniform(-1.0, 1.0, 3), np.array([0.0, 0.0, 1.0])
    distance = np.linalg.norm(skew(axis) @ (a.com - point))
    np.testing.assert_allclose(
        axis @ a.about(point) @ axis, axis @ a.tensor @ axis + a.mass * distance**2,
        rtol=16 * EPS)
