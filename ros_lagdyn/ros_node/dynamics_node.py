# SPDX-License-Identifier: Apache-2.0
"""The node `lagdyn`: joint states in; torques, gravity compensation and mass matrix out."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from itertools import chain
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import qos_profile_sensor_data
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from ros_lagdyn.errors import InvalidArgumentError, LagdynError
from ros_lagdyn.live_model import LiveModel
from ros_lagdyn.ros_node.command_output import TICK, CommandOutput
from ros_lagdyn.ros_node.description import RobotDescription, requested_text
from ros_lagdyn.ros_node.diagnostics import (
    command_fault,
    command_status,
    model_status,
    traffic_status,
)
from ros_lagdyn.ros_node.fast_lane import (
    LOOK_UP,
    waiting_messages,
    waiting_with_info,
    while_serving,
)
from ros_lagdyn.ros_node.messages import INPUT_QOS
from ros_lagdyn.ros_node.node_parameters import NODE_PARAMETERS, WITHOUT_MODEL, settings_of
from ros_lagdyn.ros_node.outputs import Outlets, Outputs
from ros_lagdyn.ros_node.parameters import OFF, Parameters, Values
from ros_lagdyn.ros_node.pipeline import Pipeline, steady
from ros_lagdyn.ros_node.requests import survive_requests
from ros_lagdyn.ros_node.running import NO_CLOCK, lacks_clock, run, spare_long_lived

WARN_EVERY = 5.0  # [s], for each kind of warning
REPORT_EVERY = 1.0  # [s]
SETTLE_AFTER = 0.1  # [s]
FAULT_EVERY = 0.1  # [s], at least, between two reports of begins and ends of faults
PURPOSE = 'Answers joint states with torques, gravity compensation and mass matrix, checked live.'


class DynamicsNode(LifecycleNode):
    """A lifecycle node around a Pipeline, whose model is replaced whole when something changes.

    Attributes:
        is_ending: asked where the node waits for something: whether the process is to end.
    """

    def __init__(self, name: str = 'lagdyn', **arguments: Any) -> None:
        """Declare parameters; configure and activate by itself unless autostart is false.

        Raises:
            InvalidArgumentError: a parameter's value is refused.
        """
        super().__init__(name, **arguments)
        self.is_ending: Callable[[], bool] = lambda: False
        self._pipeline: Pipeline | None = None  # while configured
        self._outlets: Outlets | None = None  # while configured
        self._inlets: list[Subscription] = []
        self._joint_states: Subscription | None = None
        self._is_active = False
        self._is_finalized = False
        self._text = ''  # of the URDF that the model is made from, or is to be
        self._fault = ''  # why the last configuration or description was refused
        self._note = ''  # what was said about the engines last
        self._reason = ''  # of the command's fault that was reported last
        self._next_fault = 0.0  # steady time [s], when its begin or end may be reported again
        self._next_warning: dict[str, float] = {}  # steady time [s] by kind
        self._declared = Parameters(self, NODE_PARAMETERS)
        values = self._declared.values
        _require_ordered_tolerances(values)
        self._declared.accept = self._accept
        survive_requests(self)
        self._starts_itself = values['autostart']
        self._switch = self.create_service(SetBool, '~/enable', self._on_enable)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        # A simulated clock may stand, or not be there at all: reports come all the same.
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(REPORT_EVERY, self._report, clock=self._steady)
        self._description = RobotDescription(
            self, values['robot_description'], self._on_description)
        if self._starts_itself:
            self._reminder = self.create_timer(
                values['robot_description_timeout'] or WARN_EVERY, self._remind,
                clock=self._steady)

    # -- lifecycle ---------------------------------------------------------------------------

    @property
    def _state(self) -> str:
        if self._is_finalized:
            return 'finalized'
        if self._pipeline is None:
            return 'unconfigured'
        return 'active' if self._is_active else 'inactive'

    @property
    def _awaited(self) -> str:
        if self._is_finalized:
            return 'shut down for good'
        if self._text:
            return 'waiting to be configured'
        return self._description.awaited

    def _remind(self) -> None:
        if self._text or not self._starts_itself:
            self._reminder.cancel()
        else:
            self.get_logger().warning(self._awaited)

    def _later(self, seconds: float, act: Callable[[], Any]) -> None:
        """Do something once, in a callback of its own."""
        def once() -> None:
            self.destroy_timer(timer)
            act()

        timer = self.create_timer(seconds, once, clock=self._steady)

    def _start(self) -> None:
        """Configure and activate, unless somebody else did."""
        if self._starts_itself and self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Build the engines of the description and test them."""
        values = self._declared.values
        try:
            if not self._text:
                self._description.wait(values['robot_description_timeout'], self.is_ending)
            if not self._text:
                raise LagdynError(
                    f'no description within {values["robot_description_timeout"]:g} s, '
                    + self._awaited)
            # Topics first: they find their peers while the engines are built.
            self._outlets = Outlets(self)
            if self._starts_itself:
                self._listen()
            model = self._tested_model(self._text, values)
            self._pipeline = Pipeline(
                model, self._outputs(model, values), values, clock=self.get_clock(),
                warn=self._warn)
        except LagdynError as error:
            self._fault = f'not configured: {error}'
            self.get_logger().error(self._fault)
            self._forget()
            return TransitionCallbackReturn.FAILURE
        except Exception as error:
            # rclpy goes to on_error without a word.
            self._fault = f'not configured: {type(error).__name__}: {error}'
            self.get_logger().error('not configured: ' + traceback.format_exc())
            raise
        self._fault = ''
        self._starts_itself = False  # from now on it obeys
        self._inlets = [
            self.create_subscription(
                JointTrajectory, '~/reference', self._pipeline.take_reference, INPUT_QOS),
            self.create_subscription(
                WrenchStamped, '~/external_wrench', self._pipeline.take_wrench, INPUT_QOS),
        ]
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Answer joint states from now on."""
        assert self._pipeline is not None
        self._pipeline.forget_inputs()
        for _ in waiting_messages(self._listen()):
            pass  # older than the activation
        self._pipeline.outputs.command.start(steady())
        self._reason = ''
        self._is_active = True
        self._later(SETTLE_AFTER, self._warn_of_missing_limits)
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Answer no longer; a controller gets a last command of zeros."""
        self._stop_answering()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forget the model, keep the last description."""
        self._forget()
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let go of everything."""
        self._starts_itself = False
        self._is_finalized = True
        self._forget()
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Go back to unconfigured after an unexpected fault in a transition."""
        self._forget()
        return TransitionCallbackReturn.SUCCESS

    def close(self) -> None:
        """Let go of the arm and make sure that it is heard, before the process ends."""
        self._forget()

    @property
    def fast_lane(self) -> Subscription | None:
        """The subscription to joint states, while active."""
        return self._joint_states if self._is_active else None

    @property
    def longest_wait(self) -> float:
        """How long the loop may wait for something to happen [s]."""
        return TICK if self._command is not None and self._command.may_command else LOOK_UP

    @property
    def _command(self) -> CommandOutput | None:
        """The command, while active."""
        return self._pipeline.outputs.command if self._pipeline and self._is_active else None

    def _listen(self) -> Subscription:
        if self._joint_states is None:
            self._joint_states = self.create_subscription(
                JointState, 'joint_states', self._on_joint_state, qos_profile_sensor_data)
        return self._joint_states

    def _stop_answering(self) -> None:
        if self._is_active:
            assert self._pipeline is not None
            self._pipeline.outputs.command.let_go(steady())
            self._pipeline.outputs.clear_markers()
            self._is_active = False
        if self._joint_states is not None:
            self.destroy_subscription(self._joint_states)
            self._joint_states = None

    def _forget(self) -> None:
        self._stop_answering()
        self._pipeline = None
        for subscription in self._inlets:
            self.destroy_subscription(subscription)
        self._inlets = []
        if self._outlets is not None:
            self._outlets.close()
            self._outlets = None

    # -- the model ---------------------------------------------------------------------------

    @property
    def _full_name(self) -> str:
        return self.get_fully_qualified_name().removeprefix('/')

    def _tested_model(self, urdf: str, values: Values) -> LiveModel:
        settings = settings_of(values)

        def build() -> tuple[LiveModel, float]:
            model = LiveModel(urdf, settings)
            return model, model.self_test()

        try:
            # Commands go on, and faults are noticed, however long it takes.
            model, seconds = while_serving(self, build, self.is_ending, self._switch)
        except InterruptedError as error:
            raise LagdynError(f'no new model: {error}') from None
        text = (f'robot "{model.arm.name}" with joints {", ".join(model.joints)}: '
                f'{model.dynamics.engine} checked by {model.check_dynamics.engine}; self-test '
                f'passed in {1e3 * seconds:.0f} ms')

        if settings.payload_mass > 0.0:
            text += f'; payload of {settings.payload_mass:g} kg at {model.payload_frame}'

        def settle() -> None:
            if self._pipeline is None or self._pipeline.model is not model:
                return  # it was refused after all, or replaced
            if model.note and model.note != self._note:
                self.get_logger().warning(model.note)
            self._note = model.note
            self.get_logger().info(text)
            spare_long_lived()

        # The first line that a process logs takes rclpy 50 ms: not before the first answer.
        self._later(SETTLE_AFTER, settle)
        return model

    def _outputs(self, model: LiveModel, values: Values) -> Outputs:
        assert self._outlets is not None
        return Outputs(self._full_name, model, values, self._outlets)

    def _on_description(self, text: str) -> None:
        """Take a new text: replace the model where there is one, else start with it."""
        if self._pipeline is None:
            self._text = text
            if self._starts_itself:
                self._later(0.0, self._start)
            return
        try:
            self._replace(text, self._declared.values)
        except LagdynError as error:
            self._fault = f'new description refused, the old one stays in force: {error}'
            self.get_logger().error(self._fault)

    def _accept(self, values: Values) -> None:
        """Take changed parameters, all at once between two joint states, or refuse them.

        Raises:
            LagdynError: they do not fit the arm or each other.
        """
        _require_ordered_tolerances(values)
        given = values['robot_description']
        if self._declared.values['robot_description'] and not given.strip():
            raise InvalidArgumentError('robot_description cannot be taken back, only replaced')
        is_new = bool(given.strip()) and given != self._declared.values['robot_description']
        text = requested_text(given) if is_new else self._text
        if self._pipeline is not None:
            self._replace(text, values)
        if is_new:
            self._description.ignore_topic()
            if self._pipeline is None:
                self._on_description(text)
        elif self._pipeline is None and self._starts_itself and self._text:
            self._later(0.0, self._start)  # what was refused before may be right now

    def _replace(self, text: str, values: Values) -> None:
        """Let another description or other values count, if they can.

        Raises:
            LagdynError: they cannot; nothing has changed then.
        """
        assert self._pipeline is not None
        old, previous = self._declared.values, self._pipeline.outputs
        model = self._pipeline.model
        if text != self._text or any(
                values[name] != old[name] for name in values if name not in WITHOUT_MODEL):
            model = self._tested_model(text, values)
        outputs = self._outputs(model, values)
        if model is previous.model:
            outputs.cross_check.take_over(previous.cross_check)
        if self._is_active:
            outputs.command.take_over(previous.command, steady())
            if not outputs.has_markers:
                previous.clear_markers()
        self._pipeline.use(model, outputs, values)
        self._text = text
        self._fault = ''

    # -- the command -------------------------------------------------------------------------

    def tick(self) -> None:
        """Let the guard look at the time, and say what has changed."""
        command = self._command
        if command is None:
            return
        now = steady()
        command.tick(now)
        reason = command.guard.reason
        if bool(reason) == bool(self._reason) or now < self._next_fault:
            return  # a fault may have one reason now and another then: it is one
        self._reason, self._next_fault = reason, now + FAULT_EVERY
        if reason:
            self.get_logger().error(command_fault(command))
        elif command.may_command:
            self.get_logger().info('command: the fault is over')
        self._diagnose([self._command_status(command)])

    def _on_enable(self, request: Any, response: Any) -> Any:
        """Turn the person's switch."""
        command = self._command
        if command is None:
            response.success = not request.data
            response.message = f'there are no commands while {self._state}'
            return response
        command.enable(request.data, steady())
        response.success = True
        response.message = ('commands are switched ' + ('on' if request.data else 'off')
                            + (', but command.mode is off' if command.mode == OFF else ''))
        self.get_logger().info(response.message)
        self._warn_of_missing_limits()
        return response

    def _warn_of_missing_limits(self) -> None:
        """Say what the guard cannot judge, where torques may go out."""
        command = self._command
        if command is not None and command.may_command:
            for missing in command.unguarded:
                self.get_logger().warning(f'command: {missing}')

    def _command_status(self, command: CommandOutput) -> DiagnosticStatus:
        topic = self._outlets['~/command'].topic_name if self._outlets else ''
        others = [f'{end.node_namespace.rstrip("/")}/{end.node_name}'
                  for end in self.get_publishers_info_by_topic(topic)]
        if self.get_fully_qualified_name() in others:
            others.remove(self.get_fully_qualified_name())
        if others:
            self._warn('other publishers', f'others publish on {topic}, too: {", ".join(others)}')
        return command_status(f'{self._full_name}: command', command, topic, others)

    # -- messages ----------------------------------------------------------------------------

    def take_fast_lane(self) -> None:
        """Answer the newest of the joint states that wait."""
        if self._is_active and self._pipeline is not None and self._joint_states is not None:
            self._pipeline.take(waiting_with_info(self._joint_states))

    def _on_joint_state(self, message: JointState) -> None:
        """Answer a joint state that an executor brings, or a newer one that waits."""
        if self._is_active and self._pipeline is not None and self._joint_states is not None:
            self._pipeline.take(
                chain(((message, {}),), waiting_with_info(self._joint_states)))

    def _warn(self, kind: str, text: str, *, severe: bool = False) -> None:
        """Log a warning or an error, at most every WARN_EVERY seconds of each kind."""
        now = steady()
        if now >= self._next_warning.get(kind, now):
            self._next_warning[kind] = now + WARN_EVERY
            if severe:
                self.get_logger().error(text)
            else:
                self.get_logger().warning(text)

    def _report(self) -> None:
        """Publish diagnostics."""
        if lacks_clock(self):
            self._warn('clock', NO_CLOCK)
        pipeline = self._pipeline
        found = [model_status(
            f'{self._full_name}: model', self._state,
            None if pipeline is None else pipeline.model, self._fault,
            self._awaited)]
        if pipeline is not None:
            found += [
                traffic_status(
                    f'{self._full_name}: joint states', pipeline.model.arm.name,
                    pipeline.traffic, pipeline.table,
                    topic=self.resolve_topic_name('joint_states'),
                    is_active=self._is_active, now_ns=self.get_clock().now().nanoseconds,
                    now=steady()),
                pipeline.outputs.cross_check.report(),
                self._command_status(pipeline.outputs.command),
            ]
        self._diagnose(found)

    def _diagnose(self, found: list[DiagnosticStatus]) -> None:
        self._diagnostics.publish(DiagnosticArray(
            header=Header(stamp=self.get_clock().now().to_msg()), status=found))


def _require_ordered_tolerances(values: Values) -> None:
    warn, error = values['cross_check.warn_tolerance'], values['cross_check.error_tolerance']
    if warn > error:
        raise LagdynError('cross_check.warn_tolerance must be at most cross_check.error_tolerance,'
                          f' got {warn} and {error}')


def main(arguments: list[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM; return the exit code."""
    return run('dynamics_node', PURPOSE, DynamicsNode, arguments)


if __name__ == '__main__':
    raise SystemExit(main())
