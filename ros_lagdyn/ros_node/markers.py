# SPDX-License-Identifier: Apache-2.0
"""The drawing of an arm as markers for rviz."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Quaternion, Vector3
from numpy.typing import ArrayLike
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from ros_lagdyn.arm_drawing import ArmDrawer, CentreOfMass, Ellipsoid, GravityArrow
from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.rigid_body import Array

CENTRES_OF_MASS = 'centres_of_mass'
GRAVITY_TORQUES = 'gravity_torques'
INERTIA_ELLIPSE = 'inertia_ellipse'

YELLOW = ColorRGBA(r=1.0, g=0.8, b=0.1, a=0.9)
BLUE = ColorRGBA(r=0.2, g=0.5, b=1.0, a=1.0)
RED = ColorRGBA(r=1.0, g=0.15, b=0.1, a=1.0)
GREEN = ColorRGBA(r=0.2, g=0.8, b=0.4, a=0.4)

# An arrow between two points has a shaft too; a bit of the length is left to it, so that rviz has
# no body of length 0 to draw.
SHARE_OF_HEAD = 0.95


class ArmMarkers:
    """Makes the messages that draw one arm.

    Namespaces and ids, always the same for one arm:
        centres_of_mass: a yellow sphere per body with mass, its volume proportional to the mass;
            the id is the body's index.
        gravity_torques: per joint i a line (id 2 i) and an arrow head (id 2 i + 1) in the
            direction of the torque that holds the joint; 3/4 of a turn is the joint's effort
            limit. Blue; red where gravity takes more than the limit.
        inertia_ellipse: id 0, green, at the tool; long where the tool is easy to accelerate.
    """

    def __init__(self, dynamics: Dynamics, tool_frame: str, frame_id: str) -> None:
        """Take the arm with its gravity and masses: when these change, make a new object.

        Args:
            dynamics: of any engine.
            tool_frame: the link at whose origin the ellipse stands.
            frame_id: TF's name of the root link.

        Raises:
            UnknownNameError: no such link.
            InvalidArgumentError: the dynamics are in other coordinates than joint positions.
        """
        self._drawer = ArmDrawer(dynamics, tool_frame)
        self._frame_id = frame_id

    def message(self, q: ArrayLike, g: ArrayLike, stamp: Time) -> MarkerArray:
        """Return the markers of one pose; what is not to be seen is deleted.

        Args:
            q: positions (n,).
            g: gravity torques at q (n,).
            stamp: of the joint state.

        Raises:
            InvalidArgumentError: not n finite numbers each.
        """
        drawing = self._drawer.draw(q, g)
        markers = [self._sphere(centre, stamp) for centre in drawing.centres_of_mass]
        for joint, arrow in enumerate(drawing.gravity_arrows):
            markers += self._arrow(joint, arrow, stamp)
        markers.append(self._ellipse(drawing.ellipsoid, stamp))
        return MarkerArray(markers=markers)

    def delete_all(self) -> MarkerArray:
        """Return the message that clears the screen."""
        return MarkerArray(markers=[self._marker('', 0, Marker.DELETEALL, Time())])

    def _sphere(self, centre: CentreOfMass, stamp: Time) -> Marker:
        marker = self._marker(CENTRES_OF_MASS, centre.body, Marker.ADD, stamp)
        marker.type = Marker.SPHERE
        marker.pose.position = _point(centre.position)
        marker.scale = Vector3(x=centre.diameter, y=centre.diameter, z=centre.diameter)
        marker.color = YELLOW
        return marker

    def _arrow(self, joint: int, arrow: GravityArrow | None, stamp: Time) -> list[Marker]:
        action = Marker.DELETE if arrow is None else Marker.ADD
        line = self._marker(GRAVITY_TORQUES, 2 * joint, action, stamp)
        head = self._marker(GRAVITY_TORQUES, 2 * joint + 1, action, stamp)
        line.type, head.type = Marker.LINE_STRIP, Marker.ARROW
        if arrow is not None:
            line.points = [_point(point) for point in arrow.shaft]
            line.scale.x = arrow.line_width
            head.points = [_point(point) for point in arrow.head]
            # Width of the shaft, width of the head, length of the head.
            head.scale = Vector3(
                x=arrow.line_width, y=arrow.head_width, z=SHARE_OF_HEAD * arrow.head_length)
            line.color = head.color = RED if arrow.beyond_limit else BLUE
        return [line, head]

    def _ellipse(self, ellipsoid: Ellipsoid | None, stamp: Time) -> Marker:
        if ellipsoid is None:
            return self._marker(INERTIA_ELLIPSE, 0, Marker.DELETE, stamp)
        marker = self._marker(INERTIA_ELLIPSE, 0, Marker.ADD, stamp)
        marker.type = Marker.SPHERE
        marker.pose.position = _point(ellipsoid.centre)
        x, y, z, w = ellipsoid.quaternion.tolist()
        marker.pose.orientation = Quaternion(x=x, y=y, z=z, w=w)
        x, y, z = ellipsoid.diameters.tolist()
        marker.scale = Vector3(x=x, y=y, z=z)
        marker.color = GREEN
        return marker

    def _marker(self, namespace: str, number: int, action: int, stamp: Time) -> Marker:
        """Return a marker at the root link's origin that stays until it is replaced."""
        marker = Marker(ns=namespace, id=number, action=action)
        marker.header.frame_id = self._frame_id
        marker.header.stamp = stamp
        marker.pose.orientation.w = 1.0
        return marker


def _point(position: Array) -> Point:
    x, y, z = position.tolist()
    return Point(x=x, y=y, z=z)
