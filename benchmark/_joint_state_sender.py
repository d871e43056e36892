# SPDX-License-Identifier: Apache-2.0
"""Send joint states of a moving arm at exact times, as told by lines of JSON.

Arguments: the names of the joints, separated by commas, then namespaces to send to.
{"to": namespace, "rate": Hz, "count": n} sends n joint states; answers how many were sent late.
{"wait_for": namespace} answers when somebody subscribes there.
Stamps are CLOCK_MONOTONIC, which all processes of a host share. The arm is where it is at its
stamp, however late that is: it never moves faster than 1 rad/s.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import time
from math import cos, sin
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState

SPIN = 100_000  # [ns], the last part of a wait; a sleep alone ends late by about half of it


def wait_until(deadline: int) -> None:
    """Wait for an instant of CLOCK_MONOTONIC [ns]."""
    left = deadline - time.monotonic_ns()
    if left > SPIN:
        time.sleep((left - SPIN) * 1e-9)
    while time.monotonic_ns() < deadline:
        pass


def send(publisher: Any, message: JointState, rate: float, number: int) -> int:
    """Send joint states at a rate [Hz]; return how many of them came too late.

    A sender that was held up goes on a period later: it never makes up for it by a burst, which
    no robot sends.
    """
    period = round(1e9 / rate)
    start = time.monotonic_ns() + period
    joints = range(len(message.name))
    late = 0
    for i in range(number):
        behind = time.monotonic_ns() - (start + i * period)
        if behind > 0:
            start += behind
            late += 1
        wait_until(start + i * period)
        now = time.monotonic_ns()
        angle = 1e-9 * now
        for k in joints:
            message.position[k] = sin(angle + k)
            message.velocity[k] = cos(angle + k)
            message.effort[k] = cos(angle - k)
        stamp = message.header.stamp
        stamp.sec, stamp.nanosec = divmod(now, 1_000_000_000)
        publisher.publish(message)
    return late


def main() -> None:
    names, namespaces = sys.argv[1].split(','), sys.argv[2:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = Node('joint_state_sender')
    publishers = {namespace: node.create_publisher(JointState, f'/{namespace}/joint_states', 10)
                  for namespace in namespaces}
    zeros = [0.0] * len(names)
    message = JointState(name=names, position=zeros, velocity=zeros, effort=zeros)
    gc.disable()
    for line in sys.stdin:
        order = json.loads(line)
        answer = 0
        if 'to' in order:
            answer = send(publishers[order['to']], message, order['rate'], order['count'])
        elif 'wait_for' in order:
            while not publishers[order['wait_for']].get_subscription_count():
                time.sleep(0.01)
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
