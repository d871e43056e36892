# SPDX-License-Identifier: Apache-2.0
"""The desired motion: the first point of a JointTrajectory."""

from __future__ import annotations

import numpy as np
from trajectory_msgs.msg import JointTrajectory

from ros_lagdyn.dynamics import LARGEST_STATE
from ros_lagdyn.errors import InvalidArgumentError
from ros_lagdyn.live_model import State
from ros_lagdyn.rigid_body import Array


class Reference:
    """The newest desired accelerations, and positions and velocities where given."""

    def __init__(self, joints: tuple[str, ...]) -> None:
        """Take the joints of the arm, in its order."""
        self._joints = joints
        self._zeros = np.zeros(len(joints))
        self.clear()

    def clear(self) -> None:
        """Forget what was desired."""
        self._received = -np.inf
        self._wished: tuple[Array | None, Array | None, Array] = (None, None, self._zeros)

    def put(self, message: JointTrajectory, now: float) -> None:
        """Take the first point of a trajectory.

        Args:
            message: joints in any order; all of the arm's, others are ignored.
            now: steady time of receipt [s].

        Raises:
            InvalidArgumentError: a joint is missing or twice there, or numbers are missing or
                not finite.
        """
        names = message.joint_names
        if not message.points:
            raise InvalidArgumentError('it has no point')
        places: dict[str, list[int]] = {joint: [] for joint in self._joints}
        for index, name in enumerate(names):
            if isinstance(name, str) and name in places:
                places[name].append(index)
        missing = [joint for joint in self._joints if len(places[joint]) != 1]
        if missing:
            raise InvalidArgumentError(
                f'it must name each joint of the arm once, not so {", ".join(missing)}')
        order = [places[joint][0] for joint in self._joints]
        point = message.points[0]
        found = []
        for what in ('positions', 'velocities', 'accelerations'):
            numbers = np.array(getattr(point, what), dtype=float)
            if len(numbers) not in (0, len(names)):
                raise InvalidArgumentError(
                    f'it names {len(names)} joints, but has {len(numbers)} {what}')
            ours = numbers[order] if len(numbers) else None
            if ours is not None and not (abs(ours) <= LARGEST_STATE).all():
                raise InvalidArgumentError(
                    f'its {what} must be finite, at most {LARGEST_STATE:g}, got {ours.tolist()}')
            found.append(ours)
        q, v, a = found
        if a is None:
            raise InvalidArgumentError('its first point has no accelerations')
        self._wished = q, v, a
        self._received = now

    def state(self, q: Array, v: Array, now: float, timeout: float) -> State:
        """Return the desired state; what was not given is as measured.

        Args:
            q: measured positions (n,).
            v: measured velocities (n,).
            now: steady time [s].
            timeout: how long a reference counts [s], after which the acceleration is 0; 0 for
                ever.
        """
        if timeout > 0.0 and now - self._received > timeout:
            return State(q, v, self._zeros)
        wished_q, wished_v, a = self._wished
        return State(q if wished_q is None else wished_q, v if wished_v is None else wished_v, a)
