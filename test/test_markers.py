# SPDX-License-Identifier: Apache-2.0
"""Markers are what rviz accepts, and what is not to be seen is deleted."""

from __future__ import annotations

from copy import deepcopy
from math import isfinite
from typing import Any

import numpy as np
import pytest
from shipped import load, states_within_limits, text_of

from ros_lagdyn import InvalidArgumentError, UnknownNameError, load_dynamics
from ros_lagdyn.arm_drawing import ArmDrawer
from ros_lagdyn.dynamics import Dynamics

pytest.importorskip('visualization_msgs')

from builtin_interfaces.msg import Duration, Time
from rclpy.serialization import deserialize_message, serialize_message
from visualization_msgs.msg import Marker, MarkerArray

from ros_lagdyn.ros_node.markers import ArmMarkers

TOOL, FRAME = 'tool0', 'robot1/base_link'
STAMP = Time(sec=12, nanosec=345)
NAMESPACES = {'centres_of_mass', 'gravity_torques', 'inertia_ellipse'}


def messages(dynamics: Dynamics, count: int = 12) -> list[tuple[np.ndarray, Any]]:
    """Return positions and messages of seeded states of an arm."""
    markers = ArmMarkers(dynamics, TOOL, FRAME)
    q = states_within_limits(dynamics, count).q
    return [(row, markers.message(row, dynamics.gravity(row), STAMP)) for row in q]


def by_id(message: Any) -> dict[tuple[str, int], Any]:
    return {(marker.ns, marker.id): marker for marker in message.markers}


def xyz(value: Any) -> list[float]:
    return [value.x, value.y, value.z]


def require_valid(message: Any) -> None:
    """Check what rviz checks of each marker, and what it draws wrongly without a word."""
    assert len(by_id(message)) == len(message.markers)  # each name once
    for marker in message.markers:
        orientation = marker.pose.orientation
        numbers = [*xyz(marker.pose.position), *xyz(orientation), orientation.w,
                   *xyz(marker.scale), *(x for point in marker.points for x in xyz(point))]
        assert all(isfinite(number) for number in numbers)
        assert np.linalg.norm([*xyz(orientation), orientation.w]) == pytest.approx(1.0, abs=1e-12)
        assert marker.header.frame_id == FRAME
        assert marker.lifetime == Duration()
        assert not marker.frame_locked
        if marker.action != Marker.ADD:
            continue
        assert marker.header.stamp == STAMP
        assert 0.0 < marker.color.a <= 1.0
        if marker.type == Marker.SPHERE:
            assert min(xyz(marker.scale)) > 0.0
            assert not marker.points
        elif marker.type == Marker.LINE_STRIP:
            assert marker.scale.x > 0.0
            assert len(marker.points) >= 2
        else:
            assert marker.type == Marker.ARROW
            assert len(marker.points) == 2
            length = np.linalg.norm(
                np.subtract(xyz(marker.points[1]), xyz(marker.points[0])))
            assert 0.0 < marker.scale.z < length
            assert min(marker.scale.x, marker.scale.y) > 0.0


def test_messages_are_what_rviz_accepts(dynamics: Dynamics) -> None:
    """Every arm, every engine; the messages survive the wire."""
    for _, message in messages(dynamics):
        require_valid(message)
        wired = deserialize_message(serialize_message(message), MarkerArray)
        assert wired.markers[0].pose == message.markers[0].pose
        assert by_id(wired).keys() == by_id(message).keys()


def test_every_message_speaks_of_the_same_markers(stem: str) -> None:
    """Each is added or deleted in each message, so nothing old stays on the screen."""
    dynamics = load(stem, 'closed_form')
    heavy = [i for i, body in enumerate(dynamics.arm.bodies) if body.inertia.mass > 0.0]
    expected = {('centres_of_mass', index) for index in heavy}
    expected |= {('gravity_torques', index) for index in range(2 * len(dynamics.joints))}
    expected |= {('inertia_ellipse', 0)}
    for _, message in messages(dynamics):
        assert by_id(message).keys() == expected
        assert {marker.action for marker in message.markers} <= {Marker.ADD, Marker.DELETE}
    assert {name for name, _ in expected} == NAMESPACES


def test_markers_are_the_drawing(stem: str) -> None:
    """Positions, points, diameters and directions are those of arm_drawing."""
    dynamics = load(stem, 'lagrangian')
    drawer = ArmDrawer(dynamics, TOOL)
    for q, message in messages(dynamics):
        markers = by_id(message)
        drawing = drawer.draw(q, dynamics.gravity(q))
        for centre in drawing.centres_of_mass:
            marker = markers['centres_of_mass', centre.body]
            assert marker.type == Marker.SPHERE
            assert xyz(marker.pose.position) == centre.position.tolist()
            assert xyz(marker.scale) == [centre.diameter] * 3
        for joint, arrow in enumerate(drawing.gravity_arrows):
            line, head = (markers['gravity_torques', 2 * joint + part] for part in (0, 1))
            assert line.action == head.action == (Marker.DELETE if arrow is None else Marker.ADD)
            if arrow is not None:
                assert (line.type, head.type) == (Marker.LINE_STRIP, Marker.ARROW)
                assert [xyz(point) for point in line.points] == arrow.shaft.tolist()
                assert [xyz(point) for point in head.points] == arrow.head.tolist()
        ellipse = markers['inertia_ellipse', 0]
        assert ellipse.action == Marker.ADD
        assert xyz(ellipse.pose.position) == drawing.ellipsoid.centre.tolist()
        assert xyz(ellipse.scale) == (2.0 * drawing.ellipsoid.semi_axes).tolist()
        x, y, z = xyz(ellipse.pose.orientation)
        w = ellipse.pose.orientation.w
        K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        np.testing.assert_allclose(
            np.eye(3) + 2.0 * w * K + 2.0 * K @ K, drawing.ellipsoid.rotation, atol=1e-12)


def test_what_disappears_is_deleted_and_comes_back() -> None:
    """At the pendulum's pole M is singular and gravity has no lever: ellipse and arcs go."""
    dynamics = load('spherical_pendulum', 'closed_form')
    markers = ArmMarkers(dynamics, TOOL, FRAME)
    ellipse, arc, head = ('inertia_ellipse', 0), ('gravity_torques', 2), ('gravity_torques', 3)
    for angle, action in ((0.8, Marker.ADD), (0.0, Marker.DELETE), (0.8, Marker.ADD)):
        q = np.array([0.3, angle])
        message = markers.message(q, dynamics.gravity(q), STAMP)
        require_valid(message)
        found = by_id(message)
        assert [found[key].action for key in (ellipse, arc, head)] == [action] * 3
        assert found['centres_of_mass', 1].action == Marker.ADD


def test_torque_beyond_the_effort_limit_has_another_colour() -> None:
    """Gravity that the motor cannot hold is seen at once."""
    q = np.array([0.2, 0.1])
    colours = []
    for text in (text_of('two_link'), text_of('two_link').replace('effort="80"', 'effort="2"')):
        dynamics = load_dynamics(text)
        message = ArmMarkers(dynamics, TOOL, FRAME).message(q, dynamics.gravity(q), STAMP)
        found = by_id(message)
        assert found['gravity_torques', 0].color == found['gravity_torques', 1].color
        colours.append(found['gravity_torques', 0].color)
    assert colours[0] != colours[1]
    assert colours[1].r > colours[1].b


def test_delete_all_clears_the_screen() -> None:
    """One marker, without a namespace: newer rviz clears only the namespace that is named."""
    message = ArmMarkers(load('two_link', 'closed_form'), TOOL, FRAME).delete_all()
    require_valid(message)
    (marker,) = message.markers
    assert marker.action == Marker.DELETEALL
    assert marker.ns == ''


def test_messages_do_not_share_what_changes() -> None:
    """A message that was kept is not changed by the next one."""
    dynamics = load('two_link', 'closed_form')
    markers = ArmMarkers(dynamics, TOOL, FRAME)
    first = markers.message([0.2, 0.1], dynamics.gravity([0.2, 0.1]), STAMP)
    kept = deepcopy(first)
    markers.message([1.2, -0.9], dynamics.gravity([1.2, -0.9]), STAMP)
    assert first == kept


def test_bad_input_is_refused_with_the_reason() -> None:
    """The node can say what is wrong: an unknown tool, a NaN."""
    dynamics = load('two_link', 'closed_form')
    with pytest.raises(UnknownNameError, match='no_such_link'):
        ArmMarkers(dynamics, 'no_such_link', FRAME)
    with pytest.raises(InvalidArgumentError, match='q must be finite'):
        ArmMarkers(dynamics, TOOL, FRAME).message([np.nan, 0.0], [0.0, 0.0], STAMP)
