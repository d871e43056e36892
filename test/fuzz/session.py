# SPDX-License-Identifier: Apache-2.0
"""The real node in this process, with publishers that are caught and a clock that obeys.

Whatever comes in goes through the callbacks that an executor would call: of subscriptions,
services and timers. What goes out is judged at once; valid messages in between are answered as an
engine answers that the node does not use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import inf, isfinite
from typing import Any
from unittest.mock import patch

import numpy as np
import rclpy
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.context import Context
from rclpy.logging import LoggingSeverity
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

from fuzz.hostile import SECOND, Hostile, Source, is_hopeless, reference_in, wrench_in
from ros_lagdyn.dynamics import dynamics_from_slim_urdf
from ros_lagdyn.generalized_forces import ForcedDynamics, Wrench
from ros_lagdyn.joint_stops import joint_stops
from ros_lagdyn.live_model import gravity_in_root, tip_frame
from ros_lagdyn.ros_node import dynamics_node, fast_lane, pipeline
from ros_lagdyn.ros_node.dynamics_node import DynamicsNode
from ros_lagdyn.ros_node.node_parameters import COMMAND_MODES
from ros_lagdyn.term_scales import TermScales
from ros_lagdyn.urdf_model import arm_from_slim_urdf
from ros_lagdyn.urdf_text import slim_urdf, with_payload

START = 1_800_000_000 * SECOND  # [ns]
ROUNDING = 1e-10  # relative: engines that differ by rounding alone stay below 1e-12
ROUNDING_OF_ANGLES = 1e-14  # [1/rad], 50 times that of a double
TRIES = 6  # of a valid joint state: up to four in a row may be behind stamps that were ahead
JOINT_TOPICS = ('inverse_dynamics', 'gravity_compensation', 'coriolis', 'residual',
                'actuator_torques')
ENDED = 'finalized'


class WrongError(AssertionError):
    """The node did what it must not do."""


class _Caught:
    """A publisher that hands on to whoever judges."""

    def __init__(self, session: Session, kind: Any, topic: str) -> None:
        self.msg_type, self.topic_name = kind, topic
        self._take = session.judge_of(topic)

    def publish(self, message: Any) -> None:
        self._take(message)

    def wait_for_all_acked(self, *_: Any) -> bool:
        return True

    def get_subscription_count(self) -> int:
        return 1


class Session:
    """One node of one arm, from its start to its end.

    Attributes:
        now: steady time [s]; it moves with each step, as its bytes say.
        counts: of what was sent and what came of it, by name.
    """

    def __init__(self, context: Context, urdf: str, start: bytes) -> None:
        """Start a node, configure and activate it.

        Args:
            context: of rclpy.
            urdf: text of the arm.
            start: bytes that choose its parameters.
        """
        self.now = 100.0
        self.counts: Counter[str] = Counter()
        self._slim = slim_urdf(urdf)
        self._arm = arm_from_slim_urdf(self._slim)
        self._stops = joint_stops(self._arm)
        joints = self._arm.joints
        self._hostile = Hostile(joints, list(self._arm.frames), wire=False)
        self._links = list(self._arm.frames)
        self._answers: dict[str, Any] = {}
        self._command: tuple[float, Any] = (-inf, np.zeros(len(joints)))
        self._is_enabled = False
        self._reference: tuple[float, Any] = (-inf, None)
        self._wrenches: dict[str, tuple[float, list[float]]] = {}
        self._known: tuple[Any, ...] = ()
        source = Source(start)
        session = self

        class Node(DynamicsNode):
            def create_publisher(self, kind: Any, topic: str, *_: Any, **__: Any) -> Any:
                return _Caught(session, kind, topic)

            def destroy_publisher(self, publisher: Any) -> bool:
                return True

        self._patched = _steady_clock(lambda: self.now)
        self._patched.__enter__()
        parameters = {
            'robot_description': urdf,
            'autostart': False,
            'engine': source.pick((*3 * ('closed_form', 'pinocchio'), 'lagrangian')),
            'acceleration.source': source.pick(('zero', 'zero', 'reference', 'estimate')),
            'cross_check.every': source.pick((1, 10, 10, 0)),
            'friction.enabled': bool(source.below(2)),
            'external_wrench.enabled': bool(source.below(2)),
            'markers.enabled': source.one_in(8),
            'residual.gravity_subtracted': bool(source.below(2)),
            'payload.mass': source.pick((0.0, 1.5)),
            'frame_prefix': source.pick(('', 'left/')),
            'command.mode': source.pick((*3 * ('gravity', 'inverse_dynamics'), 'off')),
            # So that wild messages are no faults of which the guard recovers all the time.
            'command.velocity_factor': source.pick((1.5, 1e6, 1e6)),
            'command.timeout': source.pick((0.05, 10.0)),
            'command.policy': source.pick(('fade', 'zero', 'hold_gravity')),
            'command.enable_at_start': True,
            'command.ramp_time': source.pick((0.0, 0.5)),
        }
        if source.below(2):
            parameters['command.max_effort'] = [
                source.pick((0.0, 0.5, 5.0, 1e9)) for _ in joints]
        if source.below(2):
            parameters['command.max_slew'] = [source.pick((0.1, 10.0, 1e12)) for _ in joints]
        try:
            # In a namespace of its own: a service of rclpy's lives until it is garbage.
            self.node = Node(
                context=context, namespace='fuzz', enable_rosout=False, parameter_overrides=[
                    Parameter(name, value=value) for name, value in parameters.items()])
            self.node.get_logger().set_level(LoggingSeverity.FATAL)
            # Parameters of rclpy's own are none of this package.
            self._services = {one.srv_name.rsplit('/', 1)[-1]: one for one in self.node.services}
        except BaseException:
            self._patched.__exit__(None, None, None)
            raise
        try:
            self._be_active()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the node; its last command is zero."""
        try:
            self.node.close()
            if self._command[1].any():
                raise WrongError(f'the last command is {self._command[1]}')
        finally:
            self.node.destroy_node()
            self._patched.__exit__(None, None, None)

    # -- steps -----------------------------------------------------------------------------------

    def step(self, data: bytes) -> None:
        """Send what some bytes say.

        Raises:
            WrongError: the node did what it must not.
            Exception: the node let it out, and would have ended.
        """
        source = Source(data)
        self.now += source.pick((
            1e-3, 1e-3, 1e-3, 1e-3, 2e-3, 2e-3, 1e-2, 1e-4, 0.0, 1e-6, 0.05, 0.2)) if (
                source.below(32)) else 5.0
        kind = source.byte()
        if kind < 176:
            self._send_joint_state(source)
        elif kind < 200:
            self._send_reference(source)
        elif kind < 224:
            self._send_wrench(source)
        elif kind < 236:
            self._send_request(source)
        elif kind < 244:
            self.counts['ticks'] += 1
            self.node.tick()
        elif kind < 247:
            self.probe(source)
        elif kind < 254:
            self._enable(not source.one_in(16))
        elif kind < 255:
            self._report()
        elif source.one_in(4):
            self.counts['transitions'] += 1
            self._call('change_state', self._hostile.transition(source))
        elif source.one_in(4):
            self._set(source)
        else:
            self._send_joint_state(source)

    @property
    def has_ended(self) -> bool:
        """Say whether a lifecycle manager has shut the node down for good."""
        return self._state == ENDED

    @property
    def _state(self) -> str:
        return str(self._call('get_state', GetState.Request()).current_state.label)

    def _stamp(self) -> int:
        return START + round(SECOND * self.now)

    def _send_joint_state(self, source: Source) -> None:
        message = self._hostile.joint_state(source, self._stamp())
        hopeless = is_hopeless(message, self._arm.joints)
        answered = self._answer(message)
        self.counts['joint states answered' if answered else 'joint states refused'] += 1
        if answered:
            self._pushes()  # what is too old now is forgotten, even if the timeout grows
        if hopeless and answered:
            raise WrongError(f'answered, though it should be refused: {message}')

    def _send_reference(self, source: Source) -> None:
        message = self._hostile.reference(source, self._stamp())
        wished = reference_in(message, self._arm.joints)
        if not self._hand('reference', message):
            return
        self.counts['references taken' if wished else 'references refused'] += 1
        if wished is not None:
            self._reference = (self.now, wished)

    def _send_wrench(self, source: Source) -> None:
        message = self._hostile.wrench(source, self._stamp())
        found = wrench_in(message, self._links, self._value('frame_prefix'))
        if not self._hand('external_wrench', message):
            return
        self.counts['wrenches taken' if found else 'wrenches refused'] += 1
        if found is not None:
            self._wrenches[found[0]] = (self.now, found[1])

    def _send_request(self, source: Source) -> None:
        name, request = self._hostile.request(source)
        for parameter in getattr(request, 'parameters', ()):
            # Another arm, or other joints of it, would need another session. That a path is not
            # opened, and what else becomes of descriptions, has tests of its own.
            if parameter.name in ('command.joints', 'use_sim_time') or (
                    parameter.name == 'robot_description'
                    and '<robot name="a"' not in parameter.value.string_value):
                parameter.name = 'nothing'
        self.counts['requests'] += 1
        before = self.node._declared.values
        response = self._call(name, request)
        is_refused = getattr(getattr(response, 'result', None), 'successful', True) is False
        if is_refused and self.node._declared.values is not before:
            raise WrongError(f'refused, and yet something has changed: {request}')

    def _set(self, source: Source) -> None:
        """Set something that makes a new model, or a mode of the command: back and forth."""
        name, value = source.pick((
            ('payload.mass', source.pick((0.0, 0.7, 3.0))),
            ('gravity', source.pick(([0.0, 0.0, -9.81], [1.0, -2.0, 3.0]))),
            ('friction.enabled', bool(source.below(2))),
            ('engine', source.pick(('closed_form', 'pinocchio', 'lagrangian'))),
            ('command.mode', source.pick(COMMAND_MODES)),
            ('command.policy', source.pick(('fade', 'zero', 'hold_gravity'))),
            ('acceleration.source', source.pick(('zero', 'reference', 'estimate'))),
            ('external_wrench.enabled', bool(source.below(2)))))
        self.counts['new models and modes'] += 1
        self.node.set_parameters([Parameter(name, value=value)])
        for timer in list(self.node.timers):  # what is to be done later
            if timer.timer_period_ns < 0.5 * SECOND:
                timer.callback()

    def _enable(self, on: bool) -> None:
        self.counts['switches'] += 1
        response = self._call('enable', SetBool.Request(data=on))
        if response.success:
            self._is_enabled = on
            if not on and self._command[1].any():
                raise WrongError(f'switched off with a last command of {self._command[1]}')

    def _report(self) -> None:
        self.counts['reports'] += 1
        next(timer for timer in self.node.timers
             if timer.timer_period_ns == SECOND).callback()

    # -- valid messages --------------------------------------------------------------------------

    def probe(self, source: Source) -> None:
        """Send a valid joint state: the answer must be right."""
        if self.has_ended:
            return
        self._be_active()
        self.counts['valid joint states'] += 1
        n = len(self._arm.joints)
        lower, upper = self._stops
        low, high = np.maximum(lower, -3.0), np.minimum(upper, 3.0)
        share = np.array([source.byte() / 255 for _ in range(n)])
        q = low + share * (high - low)
        v = np.array([(source.byte() - 127.5) / 40 for _ in range(n)])
        for _ in range(TRIES):
            self.now += 1e-3
            message = JointState(name=list(self._arm.joints))
            stamp = message.header.stamp
            stamp.sec, stamp.nanosec = divmod(self._stamp(), SECOND)
            message.position, message.velocity = q.tolist(), v.tolist()
            message.effort = [1.0] * n
            # Joints whose stamps were ahead may be left out of the first few.
            if self._answer(message) and (self.node._pipeline.table.q == q).all():
                return self._judge_answer(message, q, v)
        raise WrongError(f'a valid joint state is not answered: {message}')

    def _judge_answer(self, message: JointState, q: Any, v: Any) -> None:
        dynamics, forced = self._oracle()
        M, C, g = dynamics.all_terms(q, v)
        found = self._answers
        self._same('mass_matrix', np.reshape(found['mass_matrix'].data, M.shape), M)
        self._same('gravity_compensation', found['gravity_compensation'].effort, g)
        self._same('coriolis', found['coriolis'].effort, C @ v)
        answer = found['inverse_dynamics']
        if answer.header.stamp != message.header.stamp:
            raise WrongError(f'the answer has the stamp {answer.header.stamp}')
        wished = self._wished(q, v)
        if wished is None:
            return
        torque = dynamics.inverse_dynamics(*wished)
        if self._value('friction.enabled'):
            torque = torque + forced.friction(wished[1])
        pushes = self._pushes()
        if pushes:
            torque = torque - forced.external(wished[0], pushes)
        self._same('position', answer.position, wished[0])
        # Of a reference of 1e9 rad, a cosine knows seven digits.
        digits = ROUNDING + ROUNDING_OF_ANGLES * float(abs(wished[0]).max())
        rounding = digits * (float(self._scales.torque(wished[1][None], wished[2][None]).max())
                             + sum(sum(map(abs, push.force + push.torque)) for push in pushes))
        self._same('torque', answer.effort, torque, rounding)
        self._same('residual', found['residual'].effort, 1.0 - (
            torque if self._value('acceleration.source') != 'reference' else self._torque_at(
                dynamics, forced, q, v, wished[2], pushes))
            + (g if self._value('residual.gravity_subtracted') else 0.0), rounding)

    def _torque_at(self, dynamics: Any, forced: Any, q: Any, v: Any, a: Any, pushes: Any) -> Any:
        torque = dynamics.inverse_dynamics(q, v, a)
        if self._value('friction.enabled'):
            torque = torque + forced.friction(v)
        return torque - forced.external(q, pushes) if pushes else torque

    def _wished(self, q: Any, v: Any) -> tuple[Any, Any, Any] | None:
        """Return the state for which the torque is asked; None where it is not known here."""
        source = self._value('acceleration.source')
        if source == 'estimate':
            return None
        zeros = np.zeros(len(q))
        when, wished = self._reference
        timeout = self._value('reference.timeout')
        if source == 'zero' or wished is None or 0.0 < timeout < self.now - when:
            return q, v, zeros
        return (q if wished[0] is None else np.array(wished[0]),
                v if wished[1] is None else np.array(wished[1]), np.array(wished[2]))

    def _pushes(self) -> list[Wrench]:
        if not self._value('external_wrench.enabled'):
            return []
        timeout = self._value('external_wrench.timeout')
        if timeout > 0.0:
            self._wrenches = {link: (when, numbers) for link, (when, numbers)
                              in self._wrenches.items() if self.now - when < timeout}
        return [Wrench(frame=link, force=tuple(numbers[:3]), torque=tuple(numbers[3:]),
                       axes='frame') for link, (_, numbers) in self._wrenches.items()]

    def _oracle(self) -> Any:
        """Return an engine that the node does not use for its answers, with the same settings."""
        values = {name: self._value(name) for name in (
            'engine', 'gravity', 'gravity_frame', 'payload.mass', 'payload.com', 'payload.frame',
            'tool_frame', 'friction.viscous', 'friction.coulomb')}
        key = tuple(map(repr, values.values()))
        if key != self._known:
            text = self._slim
            if values['payload.mass'] > 0.0:
                text = with_payload(
                    text, frame=values['payload.frame'] or values['tool_frame']
                    or tip_frame(self._arm), mass=values['payload.mass'],
                    com=values['payload.com'])
            dynamics = dynamics_from_slim_urdf(
                text, 'pinocchio' if values['engine'] != 'pinocchio' else 'lagrangian',
                gravity_in_root(self._arm, values['gravity'], values['gravity_frame']))
            forced = ForcedDynamics(dynamics, viscous=values['friction.viscous'] or None,
                                    coulomb=values['friction.coulomb'] or None)
            self._known, self._engines = key, (dynamics, forced)
            self._scales = TermScales(dynamics)
        return self._engines

    @staticmethod
    def _same(what: str, found: Any, expected: Any, rounding: float = 0.0) -> None:
        expected = np.asarray(expected)
        rounding = max(rounding, ROUNDING * max(1.0, float(abs(expected).max())))
        if not (abs(np.asarray(found) - expected) <= rounding).all():
            raise WrongError(f'{what} is {np.asarray(found)}, but must be {expected}')

    # -- what comes out --------------------------------------------------------------------------

    def judge_of(self, topic: str) -> Any:
        """Return what judges the messages of a topic."""
        name = topic.rsplit('/', 1)[-1]
        return {
            'command': self._judge_command, 'mass_matrix': self._judge_numbers,
            'markers': self._judge_markers, 'diagnostics': self._judge_diagnostics,
            'cross_check': self._judge_cross_check, **dict.fromkeys(
                JOINT_TOPICS, lambda message: self._judge_joints(name, message)),
        }.get(name, lambda message: None)

    def _judge_joints(self, name: str, message: Any) -> None:
        self._answers[name] = message
        for numbers in (message.position, message.velocity, message.effort):
            if not all(map(isfinite, numbers)):
                raise WrongError(f'{name} is not finite: {message}')

    def _judge_numbers(self, message: Any) -> None:
        self._answers['mass_matrix'] = message
        if not all(map(isfinite, message.data)):
            raise WrongError(f'not finite: {message}')

    def _judge_cross_check(self, message: Any) -> None:
        for value in message.status[0].values:
            if value.value in ('nan', 'inf', '-inf'):
                raise WrongError(f'the engines disagree infinitely: {message}')

    def _judge_diagnostics(self, message: Any) -> None:
        size = len(serialize_message(message))
        if size > 20_000:
            raise WrongError(f'diagnostics of {size} bytes')

    def _judge_markers(self, message: Any) -> None:
        for marker in message.markers:
            position, size = marker.pose.position, marker.scale
            numbers = [position.x, position.y, position.z, size.x, size.y, size.z]
            numbers += [number for point in marker.points
                        for number in (point.x, point.y, point.z)]
            if not all(map(isfinite, numbers)):
                raise WrongError(f'not finite: {marker}')

    def _judge_command(self, message: Any) -> None:
        torque = np.array(message.data)
        self.counts['commands of torque' if torque.any() else 'commands of zero'] += 1
        before, last = self._command
        self._command = (self.now, torque)
        joints = [joint.limit.effort for joint in self._arm.independent_joints]
        most = np.array(self._value('command.max_effort') or joints)
        if len(torque) != len(most) or not np.isfinite(torque).all():
            raise WrongError(f'command {torque}')
        if not torque.any():
            return
        if (abs(torque) > most).any():
            raise WrongError(f'command {torque}, more than {most}')
        if not self._is_enabled:
            raise WrongError(f'command {torque} while switched off')
        slew = np.array(self._value('command.max_slew') or most / 0.1)
        passed = longest = self._value('command.timeout')
        if last.any():  # zeros are repeated, and no torque has been there all the time
            passed = min(max(self.now - before, 0.0), longest)
        last = np.clip(last, -most, most)  # a limit that was lowered counts at once
        if (abs(torque - last) > slew * passed + 1e-9 * most).any():
            raise WrongError(
                f'command {torque} after {last} within {passed} s, at most {slew} per s')

    # -- the node --------------------------------------------------------------------------------

    def _answer(self, message: JointState) -> bool:
        """Hand a joint state to the node; say whether it was answered."""
        self._answers.clear()
        return self._hand('joint_states', message) and 'inverse_dynamics' in self._answers

    def _hand(self, topic: str, message: Any) -> bool:
        """Call what an executor would call for a message; say whether anybody listens."""
        for subscription in self.node.subscriptions:
            if subscription.topic_name.endswith('/' + topic):
                subscription.callback(message)
                return True
        return False

    def _call(self, name: str, request: Any) -> Any:
        """Call a service as an executor would, and make sure that the response can be sent."""
        service = self._services.get(name)
        if service is None:
            service = next(one for one in self.node.services
                           if one.srv_name.rsplit('/', 1)[-1] == name)
        response = service.callback(request, service.srv_type.Response())
        serialize_message(response)
        if name == 'change_state':
            self._forget_inputs()
        return response

    def _forget_inputs(self) -> None:
        """Expect what an activation means: inputs forgotten, the switch as at the start."""
        state = self._state
        if state != 'active':
            self._is_enabled = False
            self._reference, self._wrenches = (-inf, None), {}
            if self._command[1].any():
                raise WrongError(f'{state} with a last command of {self._command[1]}')

    def _be_active(self) -> None:
        for state, transition in (('unconfigured', 1), ('inactive', 3)):
            if self._state == state:
                request = ChangeState.Request()
                request.transition.id = transition
                # Before the first command, which activation may bring.
                self._is_enabled = self._value('command.enable_at_start')
                service = self._services['change_state']
                response = service.callback(request, service.srv_type.Response())
                if not response.success:
                    raise WrongError(f'not {transition} while {state}: {self._fault()}')
                self._reference, self._wrenches = (-inf, None), {}  # from before the activation

    def _fault(self) -> str:
        return str(getattr(self.node, '_fault', ''))

    def _value(self, name: str) -> Any:
        return self.node._declared.values[name]


@contextmanager
def _steady_clock(read: Any) -> Iterator[None]:
    """Let the node have another steady clock while the block lasts."""
    with ExitStack() as stack:
        for module in (pipeline, dynamics_node):
            stack.enter_context(patch.object(module, 'steady', read))
        # A pass of the garbage collector takes longer than a hundred messages.
        stack.enter_context(patch.object(dynamics_node, 'spare_long_lived'))
        stack.enter_context(patch.object(fast_lane, 'WORK_LOOK_UP', 2e-4))
        yield


@contextmanager
def ros() -> Iterator[Context]:
    """Return a context of rclpy while the block lasts."""
    context = Context()
    rclpy.init(context=context)
    try:
        yield context
    finally:
        rclpy.try_shutdown(context=context)
