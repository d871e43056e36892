# SPDX-License-Identifier: Apache-2.0
"""A bare rclpy node that imports Pinocchio and publishes at a rate: the least of start-ups.

Arguments: rate [Hz]; then those of ROS.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import pinocchio  # noqa: F401 - what any node with dynamics has to load
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from sensor_msgs.msg import JointState


def main() -> None:
    rclpy.init(args=sys.argv)
    node = Node('lagdyn')
    publisher = node.create_publisher(JointState, '~/inverse_dynamics', 10)
    message = JointState(name=['joint1', 'joint2'], effort=[0.0, 0.0])
    node.create_timer(1.0 / float(sys.argv[1]), lambda: publisher.publish(message))
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)
    node.destroy_node()  # says goodbye: others would wait for a lost participant
    rclpy.try_shutdown()


if __name__ == '__main__':
    main()
