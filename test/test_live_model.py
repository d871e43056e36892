# SPDX-License-Identifier: Apache-2.0
"""The arm as it is now: payload, gravity frame, motors, which engine checks, what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from random_arms import random_tree
from shipped import ENGINES, GRAVITIES, SHIPPED, load, states_within_limits, text_of

from ros_lagdyn import live_model
from ros_lagdyn.arm import Arm
from ros_lagdyn.cross_check import CrossCheck, Disagreement
from ros_lagdyn.dynamics import Dynamics, Terms, load_dynamics
from ros_lagdyn.errors import (
    InvalidArgumentError,
    LagdynError,
    UnknownNameError,
    UrdfError,
)
from ros_lagdyn.generalized_forces import Wrench
from ros_lagdyn.live_model import LiveModel, Settings, State, tip_frame
from ros_lagdyn.sampling import random_states
from ros_lagdyn.urdf_model import load_arm

# Engines differ by rounding: 1e-12 leaves three digits above what is seen.
ROUNDING = 1e-12
OTHER_ENGINE = {'closed_form': 'pinocchio', 'pinocchio': 'lagrangian', 'lagrangian': 'pinocchio'}
# A mimic joint follows with an offset, an endless joint needs two numbers in Pinocchio.
WHEELS = """<robot name="wheels">
  <link name="base"/>
  <link name="wheel"><inertial><origin xyz="0.1 0.02 0"/><mass value="1.5"/>
    <inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0.002" izz="0.04"/></inertial></link>
  <link name="arm"><inertial><origin xyz="0.2 0 0.1"/><mass value="0.7"/>
    <inertia ixx="0.01" ixy="0" ixz="0.001" iyy="0.02" iyz="0" izz="0.015"/></inertial></link>
  <link name="finger"><inertial><origin xyz="0 0.1 0"/><mass value="0.3"/>
    <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.002" iyz="0" izz="0.0015"/></inertial></link>
  <joint name="spin" type="continuous"><parent link="base"/><child link="wheel"/>
    <origin xyz="0 0 0.3" rpy="0.2 0 0"/><axis xyz="0 1 0"/></joint>
  <joint name="bend" type="revolute"><parent link="wheel"/><child link="arm"/>
    <origin xyz="0.3 0 0" rpy="0 0.4 0"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" effort="9" velocity="3"/></joint>
  <joint name="grip" type="continuous"><parent link="arm"/><child link="finger"/>
    <origin xyz="0.25 0 0"/><axis xyz="1 0 0"/>
    <mimic joint="bend" multiplier="-1.5" offset="0.3"/></joint>
</robot>"""
PENDULUM = """<robot name="pendulum">
  <link name="ceiling"/>
  <link name="wall"/>
  <joint name="mount" type="fixed"><parent link="ceiling"/><child link="wall"/>
    <origin rpy="0 1.5707963267948966 0"/></joint>
  <link name="rod"><inertial><origin xyz="0.5 0 0"/><mass value="2"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
  <joint name="swing" type="revolute"><parent link="ceiling"/><child link="rod"/>
    <axis xyz="0 -1 0"/><limit lower="-3" upper="3" effort="9" velocity="3"/></joint>
</robot>"""
# A hand on an arm of two joints; the second finger moves as the first one does.
_BODY = '<inertial><mass value="{}"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>' \
        '</inertial>'
_LIMIT = '<limit lower="-1" upper="1" effort="9" velocity="3"/>'
GRIPPER = f"""<robot name="gripper">
  <link name="base"/><link name="upper">{_BODY.format(2)}</link>
  <link name="hand">{_BODY.format(1)}</link><link name="palm"/>
  <link name="left">{_BODY.format(0.1)}</link><link name="right">{_BODY.format(0.1)}</link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/>{_LIMIT}</joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="hand"/>
    <origin xyz="0.5 0 0"/><axis xyz="0 1 0"/>{_LIMIT}</joint>
  <joint name="glove" type="fixed"><parent link="hand"/><child link="palm"/>
    <origin xyz="0.3 0 0"/></joint>
  <joint name="grip" type="prismatic"><parent link="hand"/><child link="left"/>
    <origin xyz="0.2 0 0"/><axis xyz="0 1 0"/>{_LIMIT}</joint>
  <joint name="grip_too" type="prismatic"><parent link="hand"/><child link="right"/>
    <origin xyz="0.2 0 0"/><axis xyz="0 -1 0"/>{_LIMIT}<mimic joint="grip"/></joint>
</robot>"""
# No formula of the book has four joints.
CHAIN = random_tree(np.random.default_rng(5), 4)


def live(stem: str, **settings: object) -> LiveModel:
    return LiveModel(text_of(stem), Settings(**settings))


def at_rest(model: LiveModel, q: object) -> State:
    n = len(model.joints)
    return State(np.array(q, dtype=float), np.zeros(n), np.zeros(n))


def with_mass_by_hand(text: str, frame: str, mass: float, com: tuple[float, ...]) -> str:
    """Return a URDF to which a user has added a point mass with a text editor."""
    x, y, z = com
    return text.replace('</robot>', f"""
      <link name="by_hand"><inertial><origin xyz="0 0 0"/><mass value="{mass}"/>
        <inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial></link>
      <joint name="by_hand_fixed" type="fixed"><parent link="{frame}"/><child link="by_hand"/>
        <origin xyz="{x} {y} {z}"/></joint>
    </robot>""")


# -- payload and gravity -----------------------------------------------------------------------


# Off the plane of a planar arm the formula does not fit, so the payload is at the tool's origin
# or along the arm.
@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize(('stem', 'frame', 'com'), [
    ('two_link', 'tool0', (0.1, 0.0, 0.05)),
    ('two_link', 'link1', (0.2, 0.0, -0.1)),
    ('five_bar', 'tool0', (-0.05, 0.0, 0.02)),
    ('spherical_pendulum', '', (0.0, 0.0, 0.0)),
    ('cartesian', '', (0.1, 0.2, 0.3)),
])
def test_a_payload_is_a_mass_written_into_the_urdf(
        stem: str, frame: str, com: tuple[float, ...], engine: str) -> None:
    """Every engine carries the payload where the parameters put it."""
    model = live(stem, engine=engine, check_engine=OTHER_ENGINE[engine], payload_mass=1.7,
                 payload_com=com, payload_frame=frame)
    assert (model.dynamics.engine, model.note) == (engine, '')
    edited = with_mass_by_hand(text_of(stem), frame or model.tip, 1.7, com)
    expected = load_dynamics(edited, engine)
    q, v, a = random_states(expected.arm, 5, 3)
    for one in (model.dynamics, model.check_dynamics):
        found = CrossCheck(expected, one)(q, v, a)
        assert found.worst < ROUNDING
    bare = CrossCheck(load(stem, engine), model.dynamics)(q, v, a)
    assert bare.mass_matrix > 1e-3  # it is not carried by chance


def test_a_payload_of_no_mass_changes_nothing() -> None:
    """Wherever it would be."""
    model = live('two_link', payload_com=(5.0, 5.0, 5.0))
    q, v, a = random_states(model.arm, 5, 3)
    assert CrossCheck(load('two_link', 'closed_form'), model.dynamics)(q, v, a).worst == 0.0


def test_a_payload_off_the_plane_makes_other_engines_count() -> None:
    """The formula no longer fits; the numbers stay right."""
    text = text_of('spatial_3r')
    model = LiveModel(text, Settings(payload_mass=2.0, payload_com=(0.3, 0.2, 0.1)))
    expected = load_dynamics(
        with_mass_by_hand(text, model.tip, 2.0, (0.3, 0.2, 0.1)), 'lagrangian')
    q, v, a = random_states(model.arm, 5, 3)
    assert CrossCheck(expected, model.dynamics)(q, v, a).worst < ROUNDING


@pytest.mark.parametrize('engine', ENGINES)
def test_gravity_frame_turns_gravity(engine: str) -> None:
    """Gravity along the wall's +x is gravity along the root's -z, as the wall is turned."""
    text = PENDULUM
    settings = Settings(engine='lagrangian' if engine == 'closed_form' else engine,
                        gravity=(9.81, 0.0, 0.0), gravity_frame='wall')
    model = LiveModel(text, settings)
    for dynamics in (model.dynamics, model.check_dynamics):
        np.testing.assert_allclose(
            dynamics.gravity_vector, (0.0, 0.0, -9.81), rtol=0.0, atol=1e-14)
        # The rod is level: 2 kg at 0.5 m pull down, the motor holds with m g r.
        np.testing.assert_allclose(dynamics.gravity([0.0]), [2 * 9.81 * 0.5], rtol=1e-12)


def test_gravity_in_the_axes_of_the_root_when_no_frame_is_given() -> None:
    model = LiveModel(PENDULUM, Settings(gravity=(1.0, 2.0, 3.0), engine='pinocchio'))
    assert model.dynamics.gravity_vector.tolist() == [1.0, 2.0, 3.0]


def test_gravity_frame_must_not_move() -> None:
    with pytest.raises(InvalidArgumentError, match=r'gravity_frame.*"rod" moves.*"swing"'):
        LiveModel(PENDULUM, Settings(gravity_frame='rod'))


@pytest.mark.parametrize(('settings', 'unknown'), [
    ({'gravity_frame': 'nowhere'}, 'nowhere'),
    ({'payload_mass': 1.0, 'payload_frame': 'no_hand'}, 'no_hand'),
    ({'engine': 'abacus'}, 'abacus'),
    ({'check_engine': 'slide_rule'}, 'slide_rule'),
])
def test_unknown_names_are_refused_with_the_known_ones(
        settings: dict[str, object], unknown: str) -> None:
    with pytest.raises(UnknownNameError, match=f'"{unknown}", known are: ') as refused:
        live('two_link', **settings)
    assert len(refused.value.known) >= 3


# -- which engine ------------------------------------------------------------------------------


@pytest.mark.parametrize(('engine', 'checker'), [
    ('closed_form', 'pinocchio'), ('lagrangian', 'pinocchio'), ('pinocchio', 'closed_form')])
def test_auto_chooses_another_engine(engine: str, checker: str) -> None:
    model = live('two_link', engine=engine)
    assert (model.dynamics.engine, model.check_dynamics.engine) == (engine, checker)
    assert model.note == ''


@pytest.mark.parametrize('engine', ENGINES)
def test_an_engine_cannot_check_itself(engine: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f'must differ, both are {engine}'):
        live('two_link', engine=engine, check_engine=engine)


@pytest.mark.parametrize(('settings', 'main', 'checker'), [
    ({}, 'pinocchio', 'lagrangian'),
    ({'engine': 'pinocchio'}, 'pinocchio', 'lagrangian'),
    ({'engine': 'lagrangian', 'check_engine': 'closed_form'}, 'lagrangian', 'pinocchio'),
    ({'check_engine': 'lagrangian'}, 'pinocchio', 'lagrangian'),
])
def test_without_a_formula_the_general_engines_take_over_and_say_so(
        settings: dict[str, str], main: str, checker: str) -> None:
    model = LiveModel(CHAIN, Settings(**settings))
    assert (model.dynamics.engine, model.check_dynamics.engine) == (main, checker)
    assert f'{main} computes, {checker} checks it' in model.note
    assert model.note.startswith('no closed form fits (')
    model.self_test()


def test_no_note_where_no_formula_is_asked_for() -> None:
    model = LiveModel(CHAIN, Settings(engine='lagrangian', check_engine='pinocchio'))
    assert model.note == ''


def test_a_robot_without_a_moving_joint_is_refused() -> None:
    with pytest.raises(LagdynError, match='"statue" has no moving joint'):
        LiveModel('<robot name="statue"><link name="base"/></robot>', Settings())


# -- motors ------------------------------------------------------------------------------------


def test_an_arm_with_mimic_joints_has_its_motors_at_its_joints() -> None:
    model = live('five_bar')
    assert model.actuators == model.joints
    assert model.actuator_torques(np.array([3.0, -4.0])).tolist() == [3.0, -4.0]


def test_an_arm_without_transmission_names_no_motors() -> None:
    assert live('two_link').actuators == ()


def test_motor_torques_turn_into_the_joint_torques() -> None:
    """B tau_motor = tau, and of many motors the least torques are taken."""
    B = np.array([[1.0, -1.0, 0.5], [0.0, 2.0, 1.0]])
    model = live('two_link', actuation=tuple(B.ravel()), actuators=('left', 'right', 'middle'))
    assert model.actuators == ('left', 'right', 'middle')
    tau = np.array([3.0, -4.0])
    motors = model.actuator_torques(tau)
    np.testing.assert_allclose(B @ motors, tau, rtol=1e-13)
    null = np.linalg.svd(B)[2][-1]
    np.testing.assert_allclose(null @ motors, 0.0, atol=1e-13)


def test_motors_without_names_are_numbered() -> None:
    assert live('two_link', actuation=(1.0, 1.0, 0.0, 1.0)).actuators == ('motor1', 'motor2')


@pytest.mark.parametrize(('settings', 'reason'), [
    ({'actuation': (1.0, 2.0, 3.0)}, r'actuation\.matrix must have 2 rows.*joint1, joint2.*got 3'),
    ({'actuation': (1.0, 2.0, 2.0, 4.0)}, r'full row rank.*rank is 1 with 2 joints'),
    ({'actuation': (1.0, 1.0)}, r'full row rank.*rank is 1 with 2 joints'),
    ({'actuation': (1e-320, 0.0, 0.0, 1e-320)}, r'actuation\.matrix is too close to zero'),
    ({'actuation': (1.0, 0.0, 0.0, 1e-10)}, r'actuation\.matrix is too close to zero'),
    ({'actuation': (1.0, 0.0, 0.0, 1.0), 'actuators': ('one',)},
     r'actuation\.names must be 2 names.*got 1'),
    ({'actuators': ('one', 'two')}, r'actuation\.names.*without actuation\.matrix'),
])
def test_a_transmission_that_cannot_be_is_refused(
        settings: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        live('two_link', **settings)


@pytest.mark.parametrize('names', [('twin', 'twin'), ('', 'b')])
def test_motors_have_different_names(names: tuple[str, ...]) -> None:
    """Two motors of one name could not be told apart in a message."""
    with pytest.raises(InvalidArgumentError, match=r'actuation\.names'):
        live('two_link', actuation=(1.0, 0.0, 0.0, 1.0), actuators=names)


@pytest.mark.parametrize('name', ['viscous', 'coulomb'])
def test_friction_of_a_wrong_number_of_joints_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf'{name}.*\(2,\).*3|{name}.*2.*3'):
        live('two_link', friction=True, **{name: (1.0, 2.0, 3.0)})


# -- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize('stem', SHIPPED)
def test_an_answer_is_the_sum_of_its_terms(stem: str) -> None:
    """tau = M a + C v + g, at the wished state; friction and wrenches on top."""
    model = live(stem)
    reference = load(stem, 'lagrangian')
    (q, wq), (v, wv), (_, wa) = random_states(model.arm, 2, 11)
    answer = model.answer(q, v, State(wq, wv, wa))
    M, C, g = reference.all_terms(q, v)
    np.testing.assert_allclose(answer.terms.mass_matrix, M, rtol=0.0, atol=ROUNDING * 100)
    np.testing.assert_allclose(answer.coriolis, C @ v, rtol=0.0, atol=ROUNDING * 1000)
    np.testing.assert_allclose(answer.terms.gravity, g, rtol=0.0, atol=ROUNDING * 1000)
    np.testing.assert_allclose(
        answer.torque, reference.inverse_dynamics(wq, wv, wa), rtol=0.0, atol=ROUNDING * 1e4)
    assert answer.rigid_torque is answer.torque or np.array_equal(
        answer.rigid_torque, answer.torque)


def test_friction_and_wrenches_are_added_to_the_torque_only() -> None:
    model = live('two_link', friction=True, viscous=(2.0, 3.0), coulomb=(0.5, 0.25))
    q, v = np.array([0.4, 0.7]), np.array([1.0, -2.0])
    wished = State(q, v, np.zeros(2))
    push = Wrench(frame='tool0', force=np.array([0.0, 0.0, -10.0]), torque=np.zeros(3))
    answer = model.answer(q, v, wished, (push,))
    J = load('two_link', 'lagrangian').frame_jacobian(q, 'tool0')
    force = np.concatenate((push.force, push.torque))
    # friction(): viscous v + coulomb sign(v), where the sign is smooth around 0.
    friction = model.forced.friction(v)
    np.testing.assert_allclose(friction, [2.0 + 0.5, -6.0 - 0.25], rtol=1e-6)
    np.testing.assert_allclose(
        answer.torque, answer.rigid_torque + friction - J.T @ force, rtol=1e-12)
    np.testing.assert_allclose(
        answer.rigid_torque, load('two_link', 'pinocchio').inverse_dynamics(*wished), rtol=1e-12)


@pytest.mark.parametrize(('stem', 'tip'), [('two_link', 'tool0'), ('five_bar', 'tool0')])
def test_the_tip_is_the_tool(stem: str, tip: str) -> None:
    assert live(stem).tip == tip


def test_without_a_tool_the_tip_is_the_last_link_behind_the_most_joints() -> None:
    """`finger` is behind three joints; of two links equally far, the URDF's last counts."""
    assert tip_frame(load_arm(WHEELS)) == 'finger'
    # elements in another order: a link that is fixed to the base is not the tip
    late = WHEELS.replace('</robot>', """<link name="sign"/>
        <joint name="nail" type="fixed"><parent link="base"/><child link="sign"/></joint>
        </robot>""")
    assert tip_frame(load_arm(late)) == 'finger'
    ring = WHEELS.replace('</robot>', """<link name="ring"/>
        <joint name="glue" type="fixed"><parent link="finger"/><child link="ring"/></joint>
        </robot>""")
    assert tip_frame(load_arm(ring)) == 'ring'


def test_a_hand_carries_the_payload_not_one_of_its_fingers() -> None:
    """A payload at a finger would be felt by the joint of the fingers, sideways."""
    model = LiveModel(GRIPPER, Settings(payload_mass=3.0))
    assert (model.tip, model.payload_frame) == ('palm', 'palm')
    q, v, a = random_states(model.arm, 5, 3)
    expected = load_dynamics(
        with_mass_by_hand(GRIPPER, 'palm', 3.0, (0.0, 0.0, 0.0)), 'lagrangian')
    assert CrossCheck(expected, model.dynamics)(q, v, a).worst < ROUNDING
    tool = GRIPPER.replace('"palm"', '"tool0"')
    assert tip_frame(load_arm(tool)) == 'tool0'


def test_one_finger_is_the_end_of_a_chain_and_arms_at_the_base_are_no_fingers() -> None:
    """Of two arms that are equally long the URDF's last one counts."""
    one_finger = re.sub(r'<joint name="grip_too".*?</joint>|<link name="right">.*?</link>', '',
                        GRIPPER, flags=re.DOTALL)
    assert tip_frame(load_arm(one_finger)) == 'left'
    two_arms = f"""<robot name="two_arms"><link name="torso"/>
      <link name="first">{_BODY.format(1)}</link><link name="last">{_BODY.format(1)}</link>
      <joint name="a" type="revolute"><parent link="torso"/><child link="first"/>
        <axis xyz="0 1 0"/>{_LIMIT}</joint>
      <joint name="b" type="revolute"><parent link="torso"/><child link="last"/>
        <axis xyz="0 1 0"/>{_LIMIT}</joint></robot>"""
    assert tip_frame(load_arm(two_arms)) == 'last'
    assert LiveModel(two_arms, Settings(payload_mass=1.0)).payload_frame == 'last'


# -- self-test ---------------------------------------------------------------------------------


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('stem', SHIPPED)
@pytest.mark.parametrize('gravity', GRAVITIES.values(), ids=GRAVITIES)
def test_the_shipped_arms_pass_the_self_test(
        stem: str, engine: str, gravity: tuple[float, ...]) -> None:
    seconds = live(stem, engine=engine, gravity=gravity).self_test()
    assert 0.0 < seconds < 30.0


class Broken:
    """An engine with one method replaced."""

    def __init__(self, sound: Dynamics, **methods: object) -> None:
        self._sound = sound
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> object:
        return getattr(self._sound, name)


def broken_model(which: str, **methods: object) -> LiveModel:
    """Return a model of which one engine has other methods."""
    model = live('two_link')
    broken = Broken(getattr(model, which), **methods)
    setattr(model, which, broken)
    model.cross_check = CrossCheck(model.dynamics, model.check_dynamics)
    return model


@pytest.mark.parametrize(('which', 'engine'), [
    ('dynamics', 'closed_form'), ('check_dynamics', 'pinocchio')])
def test_the_self_test_reports_engines_that_disagree(which: str, engine: str) -> None:
    sound = load('two_link', engine)

    def heavier(q: object, v: object) -> Terms:
        M, C, g = sound.all_terms(q, v)
        return Terms(M, C, 1.001 * g)

    model = broken_model(which, all_terms=heavier)
    with pytest.raises(LagdynError, match='self-test of "two_link" failed: closed_form and '
                                          r'pinocchio disagree by \d\.\de-0\d, more than 1e-09'):
        model.self_test()


@pytest.mark.parametrize(('which', 'engine'), [
    ('dynamics', 'closed_form'), ('check_dynamics', 'pinocchio')])
def test_the_self_test_reports_a_law_that_is_violated(which: str, engine: str) -> None:
    """The potential energy is in no term: only a law sees that it is wrong."""
    sound = load('two_link', engine)
    model = broken_model(which, potential_energy=lambda q: 2.0 * sound.potential_energy(q))
    with pytest.raises(LagdynError, match=f'{engine} violates ".*" by .*, more than ') as refused:
        model.self_test()
    assert 'disagree' not in str(refused.value)


def test_the_self_test_takes_nan_for_a_fault() -> None:
    sound = load('two_link', 'pinocchio')

    def nothing(q: object, v: object) -> Terms:
        M, C, g = sound.all_terms(q, v)
        return Terms(M, C, g * np.nan)

    with pytest.raises(LagdynError, match='disagree by inf'):
        broken_model('check_dynamics', all_terms=nothing).self_test()


def test_the_self_test_refuses_an_arm_whose_mass_matrix_is_singular() -> None:
    """A massless link on the axis of the next: only the sum of both angles has inertia."""
    text = re.sub(r'xyz="0\.3 0 0" rpy="0 0\.4 0"', 'xyz="0 0 0"', WHEELS)
    text = re.sub(r'<axis xyz="0 0 1"/>', '<axis xyz="0 1 0"/>', text)
    text = re.sub(r'<link name="wheel">.*?</link>', '<link name="wheel"/>', text, flags=re.S)
    text = re.sub(r'<mimic[^>]*/>', '', text).replace(
        '<joint name="grip" type="continuous">', '<joint name="grip" type="fixed">')
    with pytest.raises(LagdynError, match=r'singular|positive'):
        LiveModel(text, Settings()).self_test()


def test_a_bad_text_is_refused_before_any_engine() -> None:
    with pytest.raises(UrdfError):
        LiveModel('<robot name="x"><link', Settings())


# -- one state, quickly ------------------------------------------------------------------------


def arms() -> list[tuple[str, str]]:
    return [*((stem, text_of(stem)) for stem in SHIPPED), ('wheels', WHEELS), ('chain', CHAIN)]


@pytest.mark.parametrize(('name', 'text'), arms(), ids=[name for name, _ in arms()])
def test_pinocchio_gives_one_state_the_numbers_of_a_batch(name: str, text: str) -> None:
    """The path without loops and copies is the same computation."""
    dynamics = load_dynamics(text, 'pinocchio')
    q, v, a = random_states(dynamics.arm, 20, 7)
    q[0] += 40.0  # several turns
    batch, torques = dynamics.all_terms(q, v), dynamics.inverse_dynamics(q, v, a)
    for index in range(len(q)):
        one = dynamics.all_terms(q[index], v[index])
        for quick, slow in zip(one, batch, strict=True):
            np.testing.assert_allclose(
                quick, slow[index], rtol=0.0, atol=1e-14 * max(1.0, abs(slow[index]).max()))
        np.testing.assert_allclose(
            dynamics.inverse_dynamics(q[index], v[index], a[index]), torques[index], rtol=0.0,
            atol=1e-14 * max(1.0, abs(torques[index]).max()))


@pytest.mark.parametrize(('name', 'text'), arms(), ids=[name for name, _ in arms()])
def test_what_pinocchio_returned_belongs_to_the_caller(name: str, text: str) -> None:
    """A later call, or a caller who writes into it, changes nothing."""
    dynamics = load_dynamics(text, 'pinocchio')
    q, v, a = random_states(dynamics.arm, 2, 7)
    kept = [*dynamics.all_terms(q[0], v[0]), dynamics.inverse_dynamics(q[0], v[0], a[0])]
    copies = [term.copy() for term in kept]
    dynamics.all_terms(q[1], v[1])
    dynamics.inverse_dynamics(q[1], v[1], a[1])
    for term, copy in zip(kept, copies, strict=True):
        assert np.array_equal(term, copy)
        assert term.flags.writeable
        term.fill(np.nan)
    again = [*dynamics.all_terms(q[0], v[0]), dynamics.inverse_dynamics(q[0], v[0], a[0])]
    for term, copy in zip(again, copies, strict=True):
        assert np.array_equal(term, copy)


@pytest.mark.parametrize('bad', [
    [np.nan, 0.0], np.array([np.inf, 0.0]), np.array([np.nan, 0.0]), np.zeros(3),
    np.zeros((1, 3)), 'text'])
def test_pinocchio_refuses_a_bad_state_on_the_quick_path_too(bad: object) -> None:
    dynamics = load('two_link', 'pinocchio')
    good = np.zeros(2)
    for arguments in ((bad, good), (good, bad)):
        with pytest.raises(InvalidArgumentError):
            dynamics.all_terms(*arguments)
    for position in range(3):
        arguments = [good, good, good]
        arguments[position] = bad
        with pytest.raises(InvalidArgumentError):
            dynamics.inverse_dynamics(*arguments)


@pytest.mark.parametrize('kind', [int, np.float32, list])
def test_pinocchio_takes_other_kinds_of_numbers_too(kind: type) -> None:
    dynamics = load('two_link', 'pinocchio')
    state = [1, 2] if kind is list else np.array([1, 2], dtype=kind)
    expected = dynamics.inverse_dynamics(*[np.array([1.0, 2.0])] * 3)
    np.testing.assert_allclose(dynamics.inverse_dynamics(state, state, state), expected, rtol=1e-6)


def quickly(check: CrossCheck, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> Disagreement:
    said = [(engine.all_terms(q, v), engine.inverse_dynamics(q, v, a))
            for engine in (check.first, check.second)]
    return check.at(v, v, a, *said)


def assert_same(found: Disagreement, expected: Disagreement) -> None:
    for term in ('mass_matrix', 'coriolis', 'gravity', 'torque', 'worst'):
        np.testing.assert_allclose(
            getattr(found, term), getattr(expected, term), rtol=1e-9, atol=1e-300, err_msg=term)


class Different(Dynamics):
    """An engine that errs by a known factor, so that the disagreement is no rounding."""

    engine = 'lagrangian'

    def __init__(self, sound: Dynamics, factor: float) -> None:
        super().__init__(sound.arm, sound.gravity_vector)
        self._sound, self._factor = sound, factor

    def _mass_matrix(self, q: np.ndarray) -> np.ndarray:
        return self._factor * self._sound.mass_matrix(q)

    def _coriolis_matrix(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._factor * self._sound.coriolis_matrix(q, v)

    def _gravity(self, q: np.ndarray) -> np.ndarray:
        return self._factor * self._sound.gravity(q)

    def _potential_energy(self, q: np.ndarray) -> np.ndarray:
        return self._factor * self._sound.potential_energy(q)


@pytest.mark.parametrize('gravity', GRAVITIES.values(), ids=GRAVITIES)
@pytest.mark.parametrize('stem', SHIPPED)
def test_the_quick_comparison_is_the_comparison(stem: str, gravity: tuple[float, ...]) -> None:
    """Whether engines agree or differ by a thousandth."""
    first, second = load(stem, 'closed_form', gravity), load(stem, 'pinocchio', gravity)
    q, v, a = states_within_limits(first, 10)
    for other in (second, Different(first, 1.001)):
        check = CrossCheck(first, other)
        for index in range(len(q)):
            assert_same(quickly(check, q[index], v[index], a[index]),
                        check(q[index], v[index], a[index]))
    assert check(q, v, a).mass_matrix > 1e-5  # the thousandth is seen


@pytest.mark.parametrize('stem', SHIPPED)
def test_the_quick_comparison_at_rest(stem: str) -> None:
    """C vanishes with the velocity; there both must be exactly 0, any difference is infinite."""
    first = load(stem, 'closed_form')
    q, _, a = states_within_limits(first, 3)
    rest = np.zeros_like(q[0])
    for other in (load(stem, 'pinocchio'), Different(first, 1.001)):
        check = CrossCheck(first, other)
        for index in range(len(q)):
            found = quickly(check, q[index], rest, a[index])
            assert found.coriolis == 0.0
            assert_same(found, check(q[index], rest, a[index]))


@pytest.mark.parametrize('term', ['mass_matrix', 'coriolis_matrix', 'gravity', 'torque'])
@pytest.mark.parametrize('speed', [0.0, 1.0])
@pytest.mark.parametrize('number', [np.nan, np.inf])
def test_the_quick_comparison_finds_what_is_not_a_number(
        term: str, speed: float, number: float) -> None:
    """A NaN is an infinite disagreement of its own term, and only of that one."""
    first = load('two_link', 'closed_form')
    q, v, a = np.array([0.3, 0.4]), np.array([speed, -speed]), np.array([1.0, 2.0])
    terms, torque = first.all_terms(q, v), first.inverse_dynamics(q, v, a)
    if term == 'torque':
        wrong = terms, np.array([torque[0], number])
    else:
        poisoned = getattr(terms, term).copy()
        poisoned.flat[0] = number
        wrong = terms._replace(**{term: poisoned}), torque
    check = CrossCheck(first, first)
    for pair in (((terms, torque), wrong), (wrong, (terms, torque))):
        with np.errstate(invalid='ignore'):
            found = check.at(v, v, a, *pair)
        field = term.removesuffix('_matrix') if term.startswith('coriolis') else term
        assert found == replace(
            Disagreement(mass_matrix=0.0, coriolis=0.0, gravity=0.0, torque=0.0),
            **{field: np.inf})


def test_a_model_checks_at_the_wished_state() -> None:
    """A torque that was asked for another state is compared at that state."""
    model = live('two_link')
    (q, wq), (v, wv), (_, wa) = random_states(model.arm, 2, 11)
    wished = State(wq, wv, wa)
    found = model.check(q, v, wished, model.answer(q, v, wished))
    assert 0.0 < found.worst < ROUNDING
    elsewhere = model.check(q, v, State(wq, wv, wa + 1.0), model.answer(q, v, wished))
    assert elsewhere.torque > 1e-3
    assert elsewhere.gravity == found.gravity


def test_states_of_the_self_test_are_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes today passes tomorrow."""
    seen = []

    def spy(arm: Arm, count: int, seed: int) -> tuple[np.ndarray, ...]:
        states = random_states(arm, count, seed)
        seen.append(np.array(states))
        return states

    monkeypatch.setattr(live_model, 'random_states', spy)
    live('two_link').self_test()
    live('two_link').self_test()
    assert np.array_equal(*seen)
    assert seen[0].shape == (3, 10, 2)
