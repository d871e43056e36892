# SPDX-License-Identifier: Apache-2.0
"""The parameters of dynamics_node, and what of them the mathematics needs."""

from __future__ import annotations

from ros_lagdyn.command_guard import POLICIES
from ros_lagdyn.dynamics import EARTH_GRAVITY, ENGINES, MOST_GRAVITY
from ros_lagdyn.live_model import AUTO, Settings
from ros_lagdyn.ros_node.description import DESCRIPTION_PARAMETERS
from ros_lagdyn.ros_node.parameters import ParameterSpec, Values

COMMAND_MODES = ('off', 'gravity', 'inverse_dynamics')
ACCELERATION_SOURCES = ('estimate', 'reference', 'zero')

GRAVITY_PARAMETERS = (
    ParameterSpec(
        name='gravity', default=list(EARTH_GRAVITY), entries=float, length=3,
        minimum=-MOST_GRAVITY, maximum=MOST_GRAVITY,
        description='Acceleration of gravity [m/s^2], in the axes of gravity_frame.'),
    ParameterSpec(
        name='gravity_frame', default='',
        description='Link, fixed to the root link, in whose axes gravity is given. Empty: the '
                    'root link.'),
)
NODE_PARAMETERS = (
    *DESCRIPTION_PARAMETERS,
    ParameterSpec(
        name='autostart', default=True, read_only=True,
        description='Configure and activate without being told. False: a lifecycle manager does.'),
    ParameterSpec(
        name='engine', default='closed_form', choices=ENGINES,
        description='Whose numbers are published.'),
    ParameterSpec(
        name='check_engine', default=AUTO, choices=(AUTO, *ENGINES),
        description='Which engine checks them. auto: pinocchio, or closed_form where pinocchio '
                    'is the engine.'),
    ParameterSpec(
        name='cross_check.every', default=1, minimum=0, maximum=1_000_000,
        description='Compare the engines at every so many joint states; 0: never.'),
    ParameterSpec(
        name='cross_check.warn_tolerance', default=1e-9, minimum=0.0, maximum=1.0,
        description='Relative disagreement above which the cross-check is WARN.'),
    ParameterSpec(
        name='cross_check.error_tolerance', default=1e-6, minimum=0.0, maximum=1.0,
        description='Relative disagreement above which the cross-check is ERROR.'),
    ParameterSpec(
        name='cross_check.patience', default=0.1, minimum=0.0, maximum=1e6,
        description='How long the cross-check may be ERROR [s] before the command lets go.'),
    *GRAVITY_PARAMETERS,
    ParameterSpec(
        name='payload.mass', default=0.0, minimum=0.0, maximum=1e6,
        description='Mass that the arm carries [kg], a point.'),
    ParameterSpec(
        name='payload.com', default=[0.0, 0.0, 0.0], entries=float, length=3,
        minimum=-1e6, maximum=1e6,
        description='Where the payload is [m], in the frame of its link.'),
    ParameterSpec(
        name='payload.frame', default='',
        description='Link that carries the payload. Empty: tool_frame.'),
    ParameterSpec(
        name='friction.enabled', default=False,
        description='Whether torques overcome friction.'),
    ParameterSpec(
        name='friction.viscous', default=[], entries=float, minimum=0.0, maximum=1e9,
        description='Viscous friction of each joint [Nm s/rad]. Empty: damping of the URDF.'),
    ParameterSpec(
        name='friction.coulomb', default=[], entries=float, minimum=0.0, maximum=1e9,
        description='Coulomb friction of each joint [Nm]. Empty: friction of the URDF.'),
    ParameterSpec(
        name='external_wrench.enabled', default=False,
        description='Whether torques balance the wrenches of ~/external_wrench.'),
    ParameterSpec(
        name='external_wrench.timeout', default=5.0, minimum=0.0, maximum=1e6,
        description='How long a wrench counts [s]; 0: until the next one.'),
    ParameterSpec(
        name='acceleration.source', default='estimate', choices=ACCELERATION_SOURCES,
        description='estimate: filtered derivative of velocity. reference: ~/reference. zero: 0.'),
    ParameterSpec(
        name='acceleration.cutoff', default=10.0, minimum=1e-3, maximum=1e6,
        description='Cut-off frequency of estimated accelerations [Hz].'),
    ParameterSpec(
        name='velocity.cutoff', default=20.0, minimum=1e-3, maximum=1e6,
        description='Cut-off frequency of velocities derived from positions [Hz], where joint '
                    'states have none.'),
    ParameterSpec(
        name='reference.timeout', default=5.0, minimum=0.0, maximum=1e6,
        description='How long a reference counts [s], after which the desired acceleration is 0; '
                    '0: until the next one.'),
    ParameterSpec(
        name='joint_states.max_age', default=0.5, minimum=1e-3, maximum=1e6,
        description='How old the newest position of a joint may be [s], where several publishers '
                    'send some of the joints each.'),
    ParameterSpec(
        name='residual.gravity_subtracted', default=False,
        description='Whether the driver subtracts gravity from the efforts it reports.'),
    ParameterSpec(
        name='actuation.matrix', default=[], entries=float, minimum=-1e9, maximum=1e9,
        description='B by rows: joint torques = B motor torques. Empty: a motor at each joint.'),
    ParameterSpec(
        name='actuation.names', default=[], entries=str,
        description='Names of the motors, one for each column of B. Empty: motor1, motor2, ...'),
    ParameterSpec(
        name='command.mode', default='off', choices=COMMAND_MODES,
        description='Which torques go to ~/command; inverse_dynamics with acceleration.source '
                    'estimate: those of acceleration 0. Switching off sends zeros.'),
    ParameterSpec(
        name='command.enable_at_start', default=False,
        description='Whether commands are switched on at activation. False: ~/enable does it.'),
    ParameterSpec(
        name='command.joints', default=[], entries=str,
        description='Order of ~/command: joints, or motors of actuation.names. Empty: all joints '
                    'in the order of the arm.'),
    ParameterSpec(
        name='command.max_effort', default=[], entries=float, minimum=0.0, maximum=1e9,
        description='Largest torque of each commanded joint [Nm] or [N], in the order of '
                    'command.joints. Empty: effort limits of the URDF.'),
    ParameterSpec(
        name='command.max_slew', default=[], entries=float, minimum=1e-3, maximum=1e12,
        description='Fastest change of each commanded torque [Nm/s] or [N/s], in the order of '
                    'command.joints. Empty: zero to the largest torque in 0.1 s.'),
    ParameterSpec(
        name='command.ramp_time', default=0.5, minimum=0.0, maximum=1e3,
        description='How long a commanded torque takes from zero to its full size [s], at the '
                    'start and after a fault.'),
    ParameterSpec(
        name='command.timeout', default=0.05, minimum=1e-3, maximum=1e3,
        description='How old the joint state of a commanded joint may be [s].'),
    ParameterSpec(
        name='command.policy', default='fade', choices=tuple(POLICIES),
        description='What happens to the command at a fault. fade: to zero in fade_time. zero: at '
                    'once. hold_gravity: the last gravity torque for hold_time, then fade.'),
    ParameterSpec(
        name='command.fade_time', default=0.5, minimum=0.0, maximum=1e3,
        description='How long a command takes to zero after a fault [s].'),
    ParameterSpec(
        name='command.hold_time', default=1.0, minimum=0.0, maximum=1e3,
        description='How long gravity is held after a fault [s], with policy hold_gravity.'),
    ParameterSpec(
        name='command.velocity_factor', default=1.5, minimum=1e-3, maximum=1e6,
        description='How many times its velocity limit a joint may move before it is a fault.'),
    ParameterSpec(
        name='markers.enabled', default=False,
        description='Whether ~/markers is published.'),
    ParameterSpec(
        name='markers.rate', default=20.0, minimum=0.1, maximum=1000.0,
        description='Most markers published per second [Hz].'),
    ParameterSpec(
        name='tool_frame', default='',
        description='Link of the tool: carries the payload, and the inertia ellipse is drawn '
                    'there. Empty: tool0, or the last link.'),
    ParameterSpec(
        name='frame_prefix', default='',
        description='What stands before link names in TF, as in robot_state_publisher.'),
)

# A change of these needs no new engines.
WITHOUT_MODEL = frozenset((
    'robot_description', 'robot_description_timeout', 'cross_check.every',
    'cross_check.warn_tolerance',
    'cross_check.error_tolerance', 'external_wrench.enabled', 'external_wrench.timeout',
    'acceleration.source', 'acceleration.cutoff', 'velocity.cutoff', 'reference.timeout',
    'joint_states.max_age', 'residual.gravity_subtracted',
    'markers.enabled', 'markers.rate', 'frame_prefix', 'cross_check.patience',
    *(spec.name for spec in NODE_PARAMETERS if spec.name.startswith('command.')),
))


def settings_of(values: Values) -> Settings:
    """Return what the mathematics needs of the parameters."""
    return Settings(
        engine=values['engine'],
        check_engine=values['check_engine'],
        gravity=tuple(values['gravity']),
        gravity_frame=values['gravity_frame'],
        payload_mass=values['payload.mass'],
        payload_com=tuple(values['payload.com']),
        payload_frame=values['payload.frame'] or values['tool_frame'],
        friction=values['friction.enabled'],
        viscous=tuple(values['friction.viscous']),
        coulomb=tuple(values['friction.coulomb']),
        actuation=tuple(values['actuation.matrix']),
        actuators=tuple(values['actuation.names']),
    )
