# SPDX-License-Identifier: Apache-2.0
"""The robot_description: given as a parameter, or taken from the topic of that name."""

from __future__ import annotations

import time
from collections.abc import Callable

from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from ros_lagdyn.errors import InvalidArgumentError, UrdfError, shown
from ros_lagdyn.ros_node.parameters import ParameterSpec
from ros_lagdyn.urdf_text import read_urdf_text

# As robot_state_publisher publishes it: whoever comes late gets the last text.
DESCRIPTION_QOS = QoSProfile(
    depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL, reliability=ReliabilityPolicy.RELIABLE)
DESCRIPTION_PARAMETERS = (
    ParameterSpec(
        name='robot_description', default='',
        description='URDF of the arm: its text or, at the start only, the path of a file. Empty: '
                    'text of the topic robot_description.'),
    ParameterSpec(
        name='robot_description_timeout', default=5.0, minimum=0.0, maximum=1e6,
        description="How long a lifecycle manager's configure waits for the topic [s]; and how "
                    'often the log says what is being waited for.'),
)
LOOK_UP = 0.1  # [s], how often a wait looks whether the process is to end


def given_text(given: str) -> str:
    """Return the URDF text that the parameter means at the start: the text, or a file's path.

    Raises:
        UrdfError: there is no such file, or it cannot be read.
    """
    return read_urdf_text(given)


def requested_text(given: str) -> str:
    """Return the URDF text that a request sets the parameter to: a path is refused.

    Whoever starts a node may name any file. A request comes from anywhere: it must not choose
    what a node opens.

    Raises:
        InvalidArgumentError: it is no text of a URDF.
    """
    if '<' not in given:
        raise InvalidArgumentError(
            'robot_description must be the text of a URDF while the node runs; the path of a file '
            f'is taken at the start only, got "{shown(given)}"')
    return read_urdf_text(given)


class RobotDescription:
    """Hands each new text of a URDF to `on_text`: the given one, else those of the topic."""

    def __init__(self, node: Node, given: str, on_text: Callable[[str], None]) -> None:
        """Subscribe to the topic, unless a text is given."""
        self.topic = node.resolve_topic_name('robot_description')
        self._node = node
        self._on_text = on_text
        self._last: str | None = None
        self._subscription = None
        if given.strip():
            try:
                self._last = given_text(given)
            except UrdfError as error:
                node.get_logger().error(f'parameter robot_description: {error}')
                self._last = given
            on_text(self._last)
        else:
            self._subscription = node.create_subscription(
                String, 'robot_description', self._on_message, DESCRIPTION_QOS)

    @property
    def has_come(self) -> bool:
        """Say whether there was a text, good or not."""
        return self._last is not None

    @property
    def awaited(self) -> str:
        """What is missing, as a sentence, while no text has come."""
        return (f'waiting for a URDF on the topic {self.topic} (std_msgs/String, transient '
                'local), as robot_state_publisher publishes it, or in the parameter '
                'robot_description')

    def ignore_topic(self) -> None:
        """Take no more texts from the topic: one was given since."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
            self._subscription = None

    def _on_message(self, message: String) -> None:
        if message.data != self._last:  # publishers repeat themselves
            self._last = message.data
            self._on_text(message.data)

    def wait(self, timeout: float, is_ending: Callable[[], bool]) -> None:
        """Wait up to `timeout` seconds for the first text, from inside a callback.

        No executor can deliver the message meanwhile, so it is taken from the subscription.
        """
        deadline = time.monotonic() + timeout
        subscription = self._subscription
        while (subscription is not None and self._last is None and self._node.context.ok()
               and not is_ending()):
            remaining = deadline - time.monotonic()
            if remaining <= 0.0:
                return
            with subscription.handle, self._node.context.handle:
                wait_set = _rclpy.WaitSet(1, 0, 0, 0, 0, 0, self._node.context.handle)
                wait_set.clear_entities()
                wait_set.add_subscription(subscription.handle)
                wait_set.wait(int(1e9 * min(remaining, LOOK_UP)))
                taken = subscription.handle.take_message(String, False)
            if taken is not None:
                self._on_message(taken[0])
