# SPDX-License-Identifier: Apache-2.0
"""A push as ROS sends it."""

from __future__ import annotations

from geometry_msgs.msg import WrenchStamped

from ros_lagdyn.arm import Arm
from ros_lagdyn.dynamics import LARGEST_STATE
from ros_lagdyn.errors import InvalidArgumentError
from ros_lagdyn.generalized_forces import Wrench


def wrench_of(message: WrenchStamped, arm: Arm, frame_prefix: str = '') -> Wrench:
    """Return the wrench of a message: at the origin and in the axes of the link frame_id.

    Args:
        message: force [N] and torque [Nm] that the world exerts on the arm.
        arm: whose links are known.
        frame_prefix: what TF frames have before the link names; a frame_id without it is taken
            as a link name too.

    Raises:
        LagdynError: no such link, or a number is not finite or beyond all sense.
    """
    frame = message.header.frame_id
    if frame not in arm.frames:
        frame = frame.removeprefix(frame_prefix)
    arm.frame(frame)  # raises for an unknown link
    force, torque = message.wrench.force, message.wrench.torque
    wrench = Wrench(frame=frame, force=(force.x, force.y, force.z),
                    torque=(torque.x, torque.y, torque.z), axes='frame')
    if max(map(abs, (*wrench.force, *wrench.torque))) > LARGEST_STATE:
        raise InvalidArgumentError(f'force and torque must be at most {LARGEST_STATE:g}')
    return wrench
