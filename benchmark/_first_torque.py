# SPDX-License-Identifier: Apache-2.0
"""Send joint states and note when the first torque arrives, as told by lines of JSON.

Arguments: the names of the joints, separated by commas, then namespaces of nodes `lagdyn`.
{"first": namespace} sends joint states there; answers the arrival of a torque [ns,
CLOCK_MONOTONIC].

One process does both: DDS sometimes needs seconds until two processes know each other, where the
one that is new misses the first answer of the other. With two peers that would count twice.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import time

import rclpy
from _torque_receiver import Ear
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState

PERIOD = 2_000_000  # [ns], of joint states


def main() -> None:
    names, namespaces = sys.argv[1].split(','), sys.argv[2:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = Node('first_torque')
    ears = {namespace: Ear(node, namespace) for namespace in namespaces}
    mouths = {namespace: node.create_publisher(JointState, f'/{namespace}/joint_states', 10)
              for namespace in namespaces}
    zeros = [0.0] * len(names)
    message = JointState(name=names, position=zeros, velocity=zeros, effort=zeros)
    gc.disable()
    for line in sys.stdin:
        namespace = json.loads(line)['first']
        ear, mouth = ears[namespace], mouths[namespace]
        ear.arrivals(0)
        found: list[tuple[int, int]] = []
        while not found:
            stamp = message.header.stamp
            stamp.sec, stamp.nanosec = divmod(time.monotonic_ns(), 1_000_000_000)
            mouth.publish(message)
            found = ear.arrivals(PERIOD)
        print(json.dumps(found[0][1]), flush=True)


if __name__ == '__main__':
    main()
