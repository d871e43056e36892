# SPDX-License-Identifier: Apache-2.0
"""What the node says about one model: its messages, prepared for its joints."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from builtin_interfaces.msg import Time
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from std_msgs.msg import Header

from ros_lagdyn.cross_check import Disagreement
from ros_lagdyn.errors import UnknownNameError
from ros_lagdyn.live_model import Answer, LiveModel, State
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.ros_node.command_output import CommandOutput
from ros_lagdyn.ros_node.messages import ArrayMessage, CrossCheckMessage, JointMessage
from ros_lagdyn.ros_node.parameters import Values

if TYPE_CHECKING:
    from ros_lagdyn.ros_node.markers import ArmMarkers

# Topic -> type; reliable, so that reliable and best-effort subscribers both match.
TOPICS = {
    '~/inverse_dynamics': 'sensor_msgs/JointState',
    '~/gravity_compensation': 'sensor_msgs/JointState',
    '~/coriolis': 'sensor_msgs/JointState',
    '~/mass_matrix': 'std_msgs/Float64MultiArray',
    '~/actuator_torques': 'sensor_msgs/JointState',
    '~/cross_check': 'diagnostic_msgs/DiagnosticArray',
    '~/residual': 'sensor_msgs/JointState',
    '~/command': 'std_msgs/Float64MultiArray',
    '~/markers': 'visualization_msgs/MarkerArray',
}
MARKERS = '~/markers'
QOS = QoSProfile(depth=10)
NEWEST_ONLY = QoSProfile(depth=1)  # an old torque is worse than none


def message_type(name: str) -> Any:
    """Return the class of a message from a name such as sensor_msgs/JointState."""
    package, kind = name.split('/')
    return getattr(import_module(f'{package}.msg'), kind)


def _is_heard(publisher: Publisher, seconds: float) -> bool | None:
    """Wait until all subscribers have acknowledged; say whether they have, None: there is none."""
    if not publisher.get_subscription_count():
        return None
    return bool(publisher.wait_for_all_acked(Duration(seconds=seconds)))


class Outlets(dict[str, Publisher]):
    """The publishers of TOPICS, by topic. That of markers comes when somebody asks for it."""

    def __init__(self, node: Node) -> None:
        """Create all but the markers'."""
        super().__init__()
        self._node = node
        for topic in TOPICS:
            if topic != MARKERS:
                self.open(topic)

    def open(self, topic: str) -> None:
        """Create the publisher of a topic, unless it is there."""
        if topic not in self:
            self[topic] = self._node.create_publisher(
                message_type(TOPICS[topic]), topic, NEWEST_ONLY if topic == '~/command' else QOS)

    def close(self) -> None:
        """Destroy all publishers."""
        for publisher in self.values():
            self._node.destroy_publisher(publisher)
        self.clear()


class Outputs:
    """Prepared messages of one model, and the publishers they go to.

    Attributes:
        command: the torques for a controller.
        cross_check: the last disagreement of the engines.
    """

    def __init__(self, name: str, model: LiveModel, values: Values,
                 outlets: Outlets) -> None:
        """Prepare all messages.

        Args:
            name: of the node, for diagnostics.
            model: the arm.
            values: of the node's parameters.
            outlets: where they go.

        Raises:
            LagdynError: a parameter names something that there is not, or does not fit the arm.
        """
        joints = model.joints
        arm = model.arm
        root = next(iter(arm.frames))
        self._header = Header(frame_id=values['frame_prefix'] + root)
        self.model = model
        self._inverse_dynamics = JointMessage(joints, self._header, with_state=True)
        self._gravity = JointMessage(joints, self._header)
        self._coriolis = JointMessage(joints, self._header)
        self._residual = JointMessage(joints, self._header)
        self._actuators = JointMessage(model.actuators, self._header) if model.actuators else None
        self._mass_matrix = ArrayMessage(rows=joints, columns=joints)
        self.cross_check = CrossCheckMessage(
            f'{name}: cross-check', arm.name,
            (model.dynamics.engine, model.check_dynamics.engine),
            (values['cross_check.warn_tolerance'], values['cross_check.error_tolerance']),
            self._header)
        self._gravity_subtracted = values['residual.gravity_subtracted']
        tool = values['tool_frame'] or model.tip
        if tool not in model.links:
            raise UnknownNameError('tool_frame', tool, model.links)
        self._markers: ArmMarkers | None = None
        if values['markers.enabled']:
            # Imported where wanted: it is a part of the start-up that few need.
            from ros_lagdyn.ros_node.markers import ArmMarkers
            self._markers = ArmMarkers(model.dynamics, tool, self._header.frame_id)
            outlets.open(MARKERS)
        self._publish = {topic: publisher.publish for topic, publisher in outlets.items()}
        self.command = CommandOutput(
            model, values, self._publish['~/command'], partial(_is_heard, outlets['~/command']))

    @property
    def has_markers(self) -> bool:
        """Say whether markers are wanted."""
        return self._markers is not None

    def publish(self, stamp: Time, wished: State, answer: Answer) -> None:
        """Publish what follows from one joint state.

        Args:
            stamp: of the joint state.
            wished: the state for which the torque was asked.
            answer: what the model says.
        """
        self._header.stamp = stamp
        gravity, torque = answer.terms.gravity, answer.torque
        message = self._inverse_dynamics
        message.position[:] = wished.q
        message.velocity[:] = wished.v
        message.effort[:] = torque
        self._publish['~/inverse_dynamics'](message.message)
        self._gravity.effort[:] = gravity
        self._publish['~/gravity_compensation'](self._gravity.message)
        self._coriolis.effort[:] = answer.coriolis
        self._publish['~/coriolis'](self._coriolis.message)
        self._mass_matrix.data[:] = answer.terms.mass_matrix
        self._publish['~/mass_matrix'](self._mass_matrix.message)
        if self._actuators is not None:
            self._actuators.effort[:] = self.model.actuator_torques(torque)
            self._publish['~/actuator_torques'](self._actuators.message)

    def publish_residual(self, measured: Array, gravity: Array, torque: Array) -> None:
        """Publish measured efforts (n,) less the model's torque (n,), both where the arm is.

        Where the driver has subtracted gravity (n,), so does this.
        """
        self._residual.effort[:] = measured - torque
        if self._gravity_subtracted:
            self._residual.effort[:] += gravity
        self._publish['~/residual'](self._residual.message)

    def publish_cross_check(self, found: Disagreement) -> None:
        """Publish a disagreement, with the stamp of the last joint state."""
        self.cross_check.fill(found)
        self._publish['~/cross_check'](self.cross_check.message)

    def publish_markers(self, q: Array, g: Array) -> None:
        """Publish the drawing of a pose (n,) and its gravity torques (n,)."""
        if self._markers is not None:
            self._publish[MARKERS](self._markers.message(q, g, self._header.stamp))

    def clear_markers(self) -> None:
        """Take the drawing off the screen."""
        if self._markers is not None:
            self._publish[MARKERS](self._markers.delete_all())
