# SPDX-License-Identifier: Apache-2.0
"""Whatever is wrong with the input, one error of the package's own says what, where and why.

Every case goes through every engine: the error must come before, and not depend on, what computes.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from shipped import ENGINES, load, text_of

from ros_lagdyn import errors
from ros_lagdyn.dynamics import load_dynamics
from ros_lagdyn.errors import (
    InvalidArgumentError,
    LagdynError,
    UnknownNameError,
    UnsupportedJointError,
    UrdfError,
)
from ros_lagdyn.urdf_model import MAX_MOVING_JOINTS

QUICK = 5.0  # [s], a hundred times what loading takes: an expanded bomb takes for ever
MUCH = 1000  # characters that a sentence fit for a user does not exceed

# An elbow in few words. Cases change one thing in it.
INERTIAL = ('<inertial><origin xyz="0.5 0 0"/><mass value="2"/>'
            '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.2"/></inertial>')
JOINT_2 = ('<joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/>'
           '<origin xyz="1 0 0" rpy="0 0 0.5"/><axis xyz="0 0 1"/>'
           '<limit lower="-2" upper="2" effort="10" velocity="3"/>'
           '<dynamics damping="0.1" friction="0.2"/></joint>')
GOOD = ('<robot name="arm"><link name="base"/>'
        f'<link name="upper">{INERTIAL}</link><link name="fore">{INERTIAL}</link>'
        '<joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/>'
        f'<axis xyz="0 0 1"/></joint>{JOINT_2}</robot>')
TENSOR = 'ixx="0.1" ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.2"'


def change(*pairs: str) -> str:
    """Return GOOD with the last occurrence of each text replaced: old, new, old, new, ..."""
    text = GOOD
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        head, found, tail = text.rpartition(old)
        assert found, f'{old!r} is not in the text'
        text = head + new + tail
    return text


def with_mimics(**followed: str) -> str:
    """Return GOOD with joints a, b, c, ... that follow each other."""
    more = ''.join(
        f'<link name="l{name}">{INERTIAL}</link><joint name="{name}" type="continuous">'
        f'<parent link="fore"/><child link="l{name}"/><mimic joint="{joint}"/></joint>'
        for name, joint in followed.items())
    return change('</robot>', more + '</robot>')


class Case(NamedTuple):
    """A bad URDF, and what its error must say."""

    text: str | bytes
    says: tuple[str, ...]  # regular expressions: what, where, what would be right
    error: type[LagdynError] = UrdfError


def number(value: str) -> Case:
    """Return the case of a mass that is not a finite number."""
    return Case(change('<mass value="2"/>', f'<mass value="{value}"/>'),
                (r'link "fore"', r'<mass>', r'value must be a finite number', re.escape(value)))


BOMB = ('<!DOCTYPE lolz [<!ENTITY a "lol">'
        + ''.join(f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip(
            'abcdefghi', 'bcdefghij', strict=True))
        + ']>')

CASES = {
    # -- not XML, or not a URDF
    'empty text': Case('', (r'empty', r'<robot>')),
    'only spaces': Case(' \n\t ', (r'empty', r'<robot>')),
    'empty bytes': Case(b'', (r'empty', r'<robot>')),
    'binary': Case(b'\x7fELF\x02\x01\xff\xfe\x00<', (r'not UTF-8', r'byte 6', r'0xff')),
    'null bytes': Case('<robot name="a">\0</robot>', (r'malformed XML', r'line 1')),
    'cut off': Case(GOOD[:200], (r'malformed XML', r'line 1')),
    'tags crossed': Case('<robot name="a"><link name="b"></robot></link>',
                         (r'malformed XML', r'mismatched tag', r'line 1')),
    'text after the end': Case(GOOD + 'more', (r'malformed XML', r'junk', r'line 1')),
    'attribute twice': Case(change('<mass value="2"/>', '<mass value="2" value="3"/>'),
                            (r'malformed XML', r'duplicate attribute', r'line 1')),
    'undefined entity': Case(change('"arm"', '"&arm;"'), (r'malformed XML', r'undefined entity')),
    'not a robot': Case('<sdf version="1.6"/>', (r'<sdf>', r'expected <robot>')),
    'html': Case('<html><body>404</body></html>', (r'<html>', r'expected <robot>')),
    'robot in a namespace': Case(change('<robot name="arm">', '<robot name="arm" xmlns="a:b">'),
                                 (r'robot>', r'expected <robot>')),
    'xacro': Case(
        '<robot name="a" xmlns:xacro="http://www.ros.org/wiki/xacro">'
        '<xacro:property name="l" value="1"/></robot>', (r'xacro', r'expand it first')),
    'xacro without a declaration': Case(
        '<robot name="a"><xacro:property name="l" value="1"/></robot>',
        (r'malformed XML', r'unbound prefix')),
    'entity bomb': Case(f'<?xml version="1.0"?>{BOMB}{change(chr(34) + "arm" + chr(34), "&j;")}'
                        .replace('name=&j;', 'name="&j;"'),
                        (r'<!DOCTYPE lolz>', r'refused', r'remove')),
    'quadratic bomb': Case(
        f'<!DOCTYPE q [<!ENTITY a "{"a" * 50_000}">]><robot name="{"&a;" * 5000}"/>',
        (r'<!DOCTYPE q>', r'refused')),
    'DTD in a file': Case(f'<!DOCTYPE robot SYSTEM "file:///etc/passwd">{GOOD}',
                          (r'<!DOCTYPE robot>', r'refused', r'remove')),
    'DTD on the net': Case(f'<!DOCTYPE robot PUBLIC "x" "http://127.0.0.1:9/x.dtd">{GOOD}',
                           (r'<!DOCTYPE robot>', r'refused')),
    'entity that names a file': Case(
        '<!DOCTYPE r [<!ENTITY f SYSTEM "file:///etc/passwd">]><robot name="a">&f;</robot>',
        (r'<!DOCTYPE r>', r'refused')),
    'parameter entity': Case(
        '<!DOCTYPE r [<!ENTITY % f SYSTEM "file:///etc/passwd"> %f;]><robot name="a"/>',
        (r'<!DOCTYPE r>', r'refused')),
    'deep nesting': Case('<robot name="a">' + '<a>' * 100_000 + '</a>' * 100_000 + '</robot>',
                         (r'nested deeper than 100', r'<a>')),
    'too large': Case(GOOD + ' ' * 5_000_001, (r'bytes', r'at most 5000000')),
    # -- links and joints
    'no links': Case('<robot name="a"/>', (r'<robot>', r'no <link>', r'at least two')),
    'no joints': Case('<robot name="lonely"><link name="base"/></robot>',
                      (r'"lonely"', r'no moving joint', r'revolute')),
    'only fixed joints': Case(
        change('type="revolute"', 'type="fixed"', 'type="continuous"', 'type="fixed"'),
        (r'"arm"', r'no moving joint', r'revolute')),
    'missing parent link': Case(change('<parent link="upper"/>', '<parent link="uper"/>'),
                                (r'joint "elbow"', r'parent link "uper"', r'not defined')),
    'missing child link': Case(change('<child link="fore"/>', '<child link="for"/>'),
                               (r'joint "elbow"', r'child link "for"', r'not defined')),
    'duplicate link': Case(change('<link name="fore">', '<link name="upper"/><link name="fore">'),
                           (r'link "upper"', r'2 times', r'expected once')),
    'duplicate joint': Case(change('"elbow"', '"shoulder"'),
                            (r'joint "shoulder"', r'2 times', r'expected once')),
    'link without a name': Case(change('<link name="fore">', '<link>'),
                                (r'<link>', r'"name" is missing')),
    'link with an empty name': Case(change('<link name="fore">', '<link name="">'),
                                    (r'link', r'"name" is empty', r'expected a name')),
    'joint without a name': Case(change('<joint name="elbow" ', '<joint '),
                                 (r'<joint>', r'"name" is missing')),
    'joint without a type': Case(change(' type="revolute"', ''),
                                 (r'joint "elbow"', r'"type" is missing')),
    'joint without a parent': Case(change('<parent link="upper"/>', ''),
                                   (r'joint "elbow"', r'needs a <parent>')),
    'joint without a child': Case(change('<child link="fore"/>', ''),
                                  (r'joint "elbow"', r'needs a <child>')),
    'parent without a link': Case(change('<parent link="upper"/>', '<parent/>'),
                                  (r'joint "elbow"', r'<parent>', r'"link" is missing')),
    'two parents': Case(change('<parent link="upper"/>',
                               '<parent link="upper"/><parent link="base"/>'),
                        (r'joint "elbow"', r'<parent>', r'twice', r'expected once')),
    'link that is its own parent': Case(change('<parent link="upper"/>', '<parent link="fore"/>'),
                                        (r'joint "elbow"', r'loop', r'expected a tree')),
    'loop beside the root': Case(
        change('</robot>', '<link name="a"/><link name="b"/>'
               + ''.join(f'<joint name="{p}{c}" type="fixed"><parent link="{p}"/>'
                         f'<child link="{c}"/></joint>' for p, c in ('ab', 'ba')) + '</robot>'),
        (r'joint "ab"', r'loop', r'expected a tree', r'<mimic>')),
    'loop without a root': Case(
        change('</robot>', '<joint name="back" type="fixed"><parent link="fore"/>'
               '<child link="base"/></joint></robot>'),
        (r'joint "shoulder"', r'loop', r'expected a tree')),
    'child of two joints': Case(
        change('</robot>', '<joint name="back" type="fixed"><parent link="base"/>'
               '<child link="fore"/></joint></robot>'),
        (r'link "fore"', r'"elbow" and "back"', r'expected one')),
    'two roots': Case(change('</robot>', '<link name="lost"/></robot>'),
                      (r'"base", "lost"', r'without a parent joint', r'one root link')),
    # -- types and limits
    'floating joint': Case(change('"revolute"', '"floating"'),
                           (r'joint "elbow"', r'"floating" is not supported', r'revolute'),
                           UnsupportedJointError),
    'planar joint': Case(change('"revolute"', '"planar"'),
                         (r'joint "elbow"', r'"planar" is not supported', r'prismatic'),
                         UnsupportedJointError),
    'unknown joint type': Case(change('"revolute"', '"Revolute"'),
                               (r'joint "elbow"', r'"Revolute" is not supported', r'revolute'),
                               UnsupportedJointError),
    'revolute without limits': Case(
        change('<limit lower="-2" upper="2" effort="10" velocity="3"/>', ''),
        (r'joint "elbow"', r'revolute joint needs', r'<limit lower')),
    'prismatic without limits': Case(
        change('"revolute"', '"prismatic"',
               '<limit lower="-2" upper="2" effort="10" velocity="3"/>', ''),
        (r'joint "elbow"', r'prismatic joint needs', r'<limit lower')),
    'limits without effort': Case(change(' effort="10"', ''),
                                  (r'joint "elbow"', r'<limit>', r'"effort" is missing')),
    'lower above upper': Case(change('lower="-2"', 'lower="2.5"'),
                              (r'joint "elbow"', r'lower limit must be <= upper', r'2\.5 > 2')),
    'negative effort': Case(change('effort="10"', 'effort="-10"'),
                            (r'joint "elbow"', r'effort limit must be >= 0', r'-10')),
    'negative damping': Case(change('damping="0.1"', 'damping="-0.1"'),
                             (r'joint "elbow"', r'damping must be >= 0', r'-0\.1')),
    'zero axis': Case(change('<axis xyz="0 0 1"/>', '<axis xyz="0 0 0"/>'),
                      (r'joint "elbow"', r'axis', r'zero vector')),
    'axis of two numbers': Case(change('<axis xyz="0 0 1"/>', '<axis xyz="0 1"/>'),
                                (r'joint "elbow"', r'<axis>', r'3 finite numbers', r'"0 1"')),
    'axis that overflows': Case(change('<axis xyz="0 0 1"/>', '<axis xyz="0 0 1e200"/>'),
                                (r'joint "elbow"', r'axis', r'1e\+?200')),
    'origin of words': Case(change('xyz="1 0 0"', 'xyz="a b c"'),
                            (r'joint "elbow"', r'<origin>', r'xyz must be 3 finite', r'"a b c"')),
    'origin with a NaN': Case(change('rpy="0 0 0.5"', 'rpy="0 nan 0"'),
                              (r'joint "elbow"', r'<origin>', r'rpy must be 3 finite', r'nan')),
    # -- mimic
    'mimic of an unknown joint': Case(with_mimics(a='elbo'),
                                      (r'joint "a"', r'unknown joint "elbo"')),
    'mimic of itself': Case(with_mimics(a='a'), (r'joint "a"', r'cycle', r'a -> a')),
    'mimic cycle of two': Case(with_mimics(a='b', b='a'),
                               (r'joint "a"', r'cycle', r'a -> b -> a')),
    'mimic cycle of three': Case(with_mimics(a='b', b='c', c='a'),
                                 (r'joint "a"', r'cycle', r'a -> b -> c -> a')),
    'mimic that leads into a cycle': Case(with_mimics(a='b', b='c', c='b'),
                                          (r'joint "a"', r'cycle', r'b -> c -> b')),
    'mimics that multiply up': Case(
        re.sub(r'(<mimic joint="\w+")', r'\1 multiplier="1e9"', with_mimics(a='elbow', b='a')),
        (r'joint "b"', r'multipliers and offsets', r'at most 1e\+12', r'1e\+18')),
    'mimics that overflow': Case(
        re.sub(r'(<mimic joint="\w+")', r'\1 multiplier="1e12" offset="1"', with_mimics(**{
            f'a{index}': f'a{index - 1}' if index else 'elbow' for index in range(30)})),
        (r'joint "a\d+"', r'multipliers and offsets', r'at most 1e\+12')),
    'mimic of a fixed joint': Case(
        change('</robot>', f'<link name="la">{INERTIAL}</link><link name="lb"/>'
               '<joint name="b" type="fixed"><parent link="fore"/><child link="lb"/></joint>'
               '<joint name="a" type="continuous"><parent link="fore"/><child link="la"/>'
               '<mimic joint="b"/></joint></robot>'),
        (r'joint "a"', r'joint "b"', r'fixed')),
    'mimic without a joint': Case(with_mimics(a='elbow').replace('<mimic joint="elbow"/>',
                                                                 '<mimic/>'),
                                  (r'joint "a"', r'<mimic>', r'"joint" is missing')),
    # -- masses
    'zero mass': Case(change('<mass value="2"/>', '<mass value="0"/>'),
                      (r'link "fore"', r'mass must be > 0 kg', r'got 0', r'no <inertial>')),
    'negative mass': Case(change('<mass value="2"/>', '<mass value="-1.5"/>'),
                          (r'link "fore"', r'mass must be > 0 kg', r'-1\.5 kg')),
    'negative inertia': Case(change(TENSOR, TENSOR.replace('ixx="0.1"', 'ixx="-0.1"')),
                             (r'link "fore"', r'principal moments >= 0', r'-0\.1 kg m\^2')),
    'indefinite inertia': Case(change(TENSOR, TENSOR.replace('iyz="0"', 'iyz="0.3"')),
                               (r'link "fore"', r'principal moments >= 0', r'-0\.1 kg m\^2')),
    'triangle inequality': Case(change(TENSOR, TENSOR.replace('izz="0.2"', 'izz="0.4"')),
                                (r'link "fore"', r'triangle inequality', r'0\.4 > 0\.1 \+ 0\.2')),
    'zero mass on a welded link': Case(
        change('</robot>', f'<link name="tool">{INERTIAL.replace("2", "0", 1)}</link>'
               '<joint name="weld" type="fixed"><parent link="fore"/><child link="tool"/>'
               '</joint></robot>').replace('<mass value="2"/>', '<mass value="0"/>', 3),
        (r'link "\w+"', r'mass must be > 0 kg')),
    'joint that moves no mass': Case(
        change(f'<link name="fore">{INERTIAL}</link>', '<link name="fore"/>'),
        (r'joint "elbow"', r'moves no mass', r'<inertial>', r'fixed')),
    'two inertials': Case(change('<link name="fore">', f'<link name="fore">{INERTIAL}'),
                          (r'link "fore"', r'<inertial>', r'twice', r'expected once')),
    'two masses': Case(change('<mass value="2"/>', '<mass value="2"/><mass value="3"/>'),
                       (r'link "fore"', r'<mass>', r'twice', r'expected once')),
    'missing mass': Case(change('<mass value="2"/>', ''),
                         (r'link "fore"', r'<inertial> needs a <mass>')),
    'missing inertia': Case(change(f'<inertia {TENSOR}/>', ''),
                            (r'link "fore"', r'<inertial> needs a <inertia>', r'point mass')),
    'half an inertia': Case(change(' izz="0.2"', ''),
                            (r'link "fore"', r'<inertia>', r'"izz" is missing')),
    'mass without a value': Case(change('<mass value="2"/>', '<mass/>'),
                                 (r'link "fore"', r'<mass>', r'"value" is missing')),
    'inertia with a NaN': Case(change('izz="0.2"', 'izz="NaN"'),
                               (r'link "fore"', r'<inertia>', r'izz must be a finite', r'NaN')),
    # -- numbers that are none, or not the same in every parser
    **{f'mass {value!r}': number(value) for value in (
        'nan', 'inf', '-inf', '1e999', 'Infinity', '1_0', '1,5', 'two', '0x10', '1 2', '1e', '１',
        '5d0')},
    'empty number': Case(change('<mass value="2"/>', '<mass value=""/>'),
                         (r'link "fore"', r'<mass>', r'value must be a finite number', r'got ""')),
    'number with a line feed': Case(
        change('<mass value="2"/>', '<mass value="2&#10;3"/>'),
        (r'link "fore"', r'<mass>', r'value must be a finite number')),
    'number of a thousand digits': Case(
        change('<mass value="2"/>', f'<mass value="{"1" * 1000}"/>'),
        (r'link "fore"', r'<mass>', r'value must be a finite number, got "1+"')),
    'name of a thousand characters': Case(
        GOOD.replace('"fore"', f'"{"fore" * 250}"').replace('<mass value="2"/>', ''),
        (r'link "u?p?p?e?r?(fore)*"', r'needs a <mass>|at most 255 characters, got 1000')),
    'robot with a name of two lines': Case(
        change('"arm"', '"arm&#10;[ERROR] a line in the log"'),
        (r'<robot>', r'name', r'printable', r'arm\\n')),
    'name with a line feed': Case(
        change('<link name="fore">', '<link name="fo&#10;re">', '<child link="fore"/>',
               '<child link="fo&#10;re"/>', '<mass value="2"/>', '<mass value="-2"/>'),
        (r'link "', r'mass|name')),
}


def load_with(engine: str, text) -> LagdynError:
    """Return the error of loading, which must come quickly and fit on one line."""
    start = time.perf_counter()
    with pytest.raises(LagdynError) as caught:
        load_dynamics(text, engine)
    assert time.perf_counter() - start < QUICK
    message = str(caught.value)
    assert message
    assert len(message.splitlines()) == 1, message
    assert len(message) < MUCH, message[:MUCH]
    return caught.value


@pytest.mark.parametrize('engine', ENGINES)
def test_the_text_that_is_changed_is_good(engine):
    """Without a change the text of the cases loads."""
    assert load_dynamics(GOOD, engine).joints == ('shoulder', 'elbow')


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('case', CASES.values(), ids=CASES)
def test_bad_urdfs_give_one_clear_error(case, engine):
    """The error is of the expected kind and says what, where and what would be right."""
    error = load_with(engine, case.text)
    assert type(error) is case.error
    for expected in case.says:
        assert re.search(expected, str(error)), f'{expected!r} is not in: {error}'


@pytest.mark.parametrize('case', CASES.values(), ids=CASES)
def test_bad_files_give_the_error_of_their_text(case, tmp_path):
    """The same text in a file is the same error."""
    path = tmp_path / 'arm.urdf'
    path.write_bytes(case.text if isinstance(case.text, bytes) else case.text.encode())
    error = load_with('lagrangian', path)
    assert type(error) is case.error
    for expected in case.says:
        assert re.search(expected, str(error)), f'{expected!r} is not in: {error}'


@pytest.mark.parametrize('engine', ENGINES)
def test_files_that_cannot_be_read(engine, tmp_path):
    """A missing file, a folder and an impossible name are named, not opened by chance."""
    missing = tmp_path / 'two_lnk.urdf'
    for path, words in (
            (missing, (str(missing), 'does not exist')),
            (str(missing), (str(missing), 'does not exist')),
            (tmp_path, (str(tmp_path), 'cannot be read', 'directory')),
            ('two_link', ('two_link', 'does not exist')),
            ('a\0b', ('cannot be read', 'null')),
            ('x' * 5000, ('cannot be read', 'too long')),
            ('.urdf' * 2000, ('cannot be read', 'too long')),
    ):
        error = load_with(engine, path)
        assert type(error) is UrdfError
        for word in words:
            assert word in str(error)


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('urdf', [None, 5, 1.5, ['<robot/>'], object])
def test_what_is_no_urdf_at_all(urdf, engine):
    """Neither text nor path: the error says what was given and what would be right."""
    error = load_with(engine, urdf)
    assert re.search('path|text', str(error))


@pytest.mark.parametrize('engine', ENGINES)
def test_a_file_too_large_is_not_read(engine, tmp_path):
    """A file of a gigabyte, sparse, is refused by its size."""
    path = tmp_path / 'huge.urdf'
    with path.open('wb') as file:
        file.truncate(10**9)
    assert re.search('too large, at most 5000000 bytes', str(load_with(engine, path)))


@pytest.mark.parametrize('engine', ENGINES)
def test_meshes_are_never_opened(engine):
    """Only dynamics is read: a mesh that is nowhere, of no known package, is fine."""
    shapes = ''.join(
        f'<{tag}><geometry><mesh filename="{name}"/></geometry></{tag}>'
        for tag in ('visual', 'collision')
        for name in ('package://nowhere/forearm.stl', 'file:///no/such/file.dae', '../x.obj'))
    with_mesh = load_dynamics(change('<link name="fore">', f'<link name="fore">{shapes}'), engine)
    np.testing.assert_array_equal(
        with_mesh.mass_matrix([0.1, 0.2]), load_dynamics(GOOD, engine).mass_matrix([0.1, 0.2]))


@pytest.mark.parametrize('engine', ENGINES)
def test_extensions_of_other_programs_are_no_concern(engine):
    """Tags of Gazebo, ros2_control and transmissions are passed over, whatever they say."""
    more = ('<gazebo reference="fore"><mass value="nan"/></gazebo>'
            '<transmission name="t"><joint name="elbow"/><joint name="elbow"/></transmission>'
            '<ros2_control name="s" type="system"><joint name="elbow"/></ros2_control>'
            '<!-- <link name="fore"/> -->')
    assert load_dynamics(change('</robot>', more + '</robot>'), engine).joints == (
        'shoulder', 'elbow')


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('value', [' 2', '2 ', '2&#10;', '&#9;2', '2\u00a0', '+2', '2.', '2E0'])
def test_unusual_numbers_mean_the_same_in_every_engine(value, engine):
    """A number is refused or taken, but no parser may drop the mass without a word."""
    try:
        arm = load_dynamics(change('<mass value="2"/>', f'<mass value="{value}"/>'), engine)
    except UrdfError:
        return
    expected = load_dynamics(GOOD, 'lagrangian').mass_matrix([0.1, 0.2])
    np.testing.assert_allclose(arm.mass_matrix([0.1, 0.2]), expected, rtol=1e-14)


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('joint', ['shoulder', 'elbow'])
@pytest.mark.parametrize('name', ['universe', 'root_joint', 'ärm', 'a b', 'x' * 300],
                         ids=lambda name: name[:10])
def test_unusual_names_are_taken_or_refused(name, joint, engine):
    """A joint's name may be one that Pinocchio uses itself: an error of our own, or the arm."""
    text = GOOD.replace(f'"{joint}"', f'"{name}"')
    try:
        arm = load_dynamics(text, engine)
    except UrdfError as error:
        assert len(str(error).splitlines()) == 1
        return
    assert arm.joints == tuple(name if item == joint else item for item in (
        'shoulder', 'elbow'))
    np.testing.assert_allclose(
        arm.mass_matrix([0.1, 0.2]),
        load_dynamics(GOOD, 'lagrangian').mass_matrix([0.1, 0.2]), rtol=1e-14)


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('encoding', ['utf-8', 'latin-1', 'utf-16', 'klingon'])
def test_an_encoding_declaration_does_not_change_names(encoding, engine):
    """The text is decoded already: a declaration is refused, or does not decode it again."""
    text = f'<?xml version="1.0" encoding="{encoding}"?>' + GOOD.replace('"elbow"', '"ellböge"')
    try:
        joints = load_dynamics(text, engine).joints
    except UrdfError as error:
        assert 'encod' in str(error)
        assert encoding != 'utf-8'
    else:
        assert joints == ('shoulder', 'ellböge')


def many(links: int, joint: str = '') -> str:
    """Return GOOD with very many links, loose or in a comb of joints of one type on the base."""
    more = []
    for index in range(links):
        more.append(f'<link name="link_number_{index}">{INERTIAL if joint else ""}</link>')
        if joint:
            more.append(f'<joint name="j{index}" type="{joint}"><parent link="base"/>'
                        f'<child link="link_number_{index}"/></joint>')
    return change('</robot>', ''.join(more) + '</robot>')


def test_an_error_about_very_many_links_stays_short():
    """A list of names that nobody can read is no sentence."""
    assert 'one root link' in str(load_with('lagrangian', many(1900)))


@pytest.mark.parametrize('engine', ENGINES)
def test_very_large_robots_are_refused_quickly(engine):
    """A text below the limit of bytes cannot keep a loader busy, or ask for endless memory."""
    assert re.search(r'more than \d+ links', str(load_with(engine, many(20_000))))
    assert re.search(r'\d+ moving joints, at most \d+', str(load_with(
        engine, many(600, 'continuous'))))


@pytest.mark.parametrize('engine', ENGINES)
def test_mimic_joints_count_as_moving(engine):
    """They cost as much: 450 of them took six gigabytes."""
    text = many(MAX_MOVING_JOINTS, 'continuous').replace(
        '<child link="link_number_', '<mimic joint="elbow"/><child link="link_number_')
    assert re.search(rf'{MAX_MOVING_JOINTS + 2} moving joints, at most {MAX_MOVING_JOINTS}',
                     str(load_with(engine, text)))


def test_a_humanoid_with_both_hands_is_not_too_large():
    """A hundred joints that move, and a thousand frames."""
    text = many(98, 'continuous').replace('</robot>', ''.join(
        f'<link name="f{index}"/><joint name="f{index}" type="fixed"><parent link="fore"/>'
        f'<child link="f{index}"/></joint>' for index in range(1000)) + '</robot>')
    assert len(load_dynamics(text, 'pinocchio').joints) == 100


def test_a_mass_on_the_base_may_be_anything():
    """The base does not move: its mass enters nothing."""
    text = GOOD.replace('<link name="base"/>', '<link name="base"><inertial><mass value="0"/>'
                        f'<inertia {TENSOR}/></inertial></link>')
    for engine in ENGINES:
        np.testing.assert_array_equal(
            load_dynamics(text, engine).mass_matrix([0.1, 0.2]),
            load_dynamics(GOOD, engine).mass_matrix([0.1, 0.2]))


def test_moments_rounded_by_a_cad_program_are_accepted():
    """A flat plate has izz = ixx + iyy; rounded to four digits it may miss that by a little."""
    text = change(TENSOR, TENSOR.replace('izz="0.2"', 'izz="0.30002"'))
    assert load_dynamics(text, 'lagrangian').joints == ('shoulder', 'elbow')


# -- engine and gravity ----------------------------------------------------------------------


BAD_GRAVITIES = {
    'scalar': 9.81,
    'two numbers': (0.0, 0.0),
    'four numbers': (0.0, 0.0, -9.81, 0.0),
    'no number': (),
    'NaN': (0.0, 0.0, float('nan')),
    'infinity': (0.0, float('inf'), 0.0),
    'a word': 'down',
    'words': ('a', 'b', 'c'),
    'None': None,
    'ragged': ((0.0,), (1.0, 2.0)),
    'matrix': np.ones((2, 3)),
    'complex': (0.0, 0.0, 1j),
    'too large an integer': [10**400, 0, 0],
}


@pytest.mark.parametrize('engine', ['', 'Pinocchio', 'mujoco', None, 3, []])
def test_an_unknown_engine_is_named_with_those_that_exist(engine):
    """The error lists the engines, and is a LookupError too."""
    with pytest.raises(UnknownNameError, match=f'unknown engine.*{", ".join(ENGINES)}') as caught:
        load_dynamics(GOOD, engine)
    assert isinstance(caught.value, LookupError)


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('gravity', BAD_GRAVITIES.values(), ids=BAD_GRAVITIES)
def test_bad_gravity_is_refused(gravity, engine):
    """Gravity is three finite numbers."""
    with pytest.raises(InvalidArgumentError, match=r'gravity must be 3 .*got') as caught:
        load_dynamics(GOOD, engine, gravity)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value).splitlines()) == 1


# -- state vectors ---------------------------------------------------------------------------

BAD_VECTORS = {
    # name: (value for an arm of two joints, words of the error)
    'too short': ([0.1], (r'shape \(2,\) or \(N, 2\)', r'joint1, joint2', r'got \(1,\)')),
    'too long': ([0.1, 0.2, 0.3], (r'shape \(2,\)', r'got \(3,\)')),
    'empty': ([], (r'shape \(2,\)', r'got \(0,\)')),
    'scalar': (0.1, (r'shape \(2,\)', r'got \(\)')),
    'scalar array': (np.array(0.1), (r'shape \(2,\)', r'got \(\)')),
    'batch too narrow': (np.zeros((4, 1)), (r'shape \(2,\) or \(N, 2\)', r'got \(4, 1\)')),
    'batch too wide': (np.zeros((2, 3)), (r'shape \(2,\)', r'got \(2, 3\)')),
    'three dimensions': (np.zeros((1, 1, 2)), (r'shape \(2,\)', r'got \(1, 1, 2\)')),
    'NaN': ([0.1, float('nan')], (r'finite', r'nan', r'joint2')),
    'NaN array': (np.array([np.nan, 0.1]), (r'finite', r'nan', r'joint1')),
    'infinity': (np.array([np.inf, 0.1]), (r'finite', r'inf', r'joint1')),
    'infinities that cancel': (np.array([np.inf, -np.inf]), (r'finite', r'inf', r'joint1')),
    'NaN in a batch': (np.array([[0.0, 1.0], [0.0, 1.0], [0.0, np.nan]]),
                       (r'finite', r'nan', r'joint2', r'state 2')),
    'words': (['a', 'b'], (r'numbers', r"'a'")),
    'array of words': (np.array(['a', 'b']), (r'numbers',)),
    'batch of words': (np.array([['a', 'b'], ['c', 'd']]), (r'numbers',)),
    'a word': ('ab', (r'numbers|shape',)),
    'ragged': ([[0.1, 0.2], [0.3]], (r'numbers', r'0\.3')),
    'dictionary': ({'joint1': 0.1, 'joint2': 0.2}, (r'numbers', r'joint1')),
    'None': (None, (r'shape|numbers|finite',)),
    'Nones': ([None, None], (r'finite|numbers',)),
    'objects': (np.array([0.1, None], dtype=object), (r'finite|numbers',)),
    'words among objects': (np.array([0.1, 'x'], dtype=object), (r'numbers',)),
    'complex': ([0.1, 1j], (r'numbers|real',)),
    'complex array': (np.array([0.1, 1j]), (r'numbers|real',)),
    'too large an integer': ([10**400, 0], (r'finite|numbers',)),
}
METHODS = {
    'mass_matrix': 'q', 'coriolis_matrix': 'qv', 'gravity': 'q', 'kinetic_energy': 'qv',
    'potential_energy': 'q', 'inverse_dynamics': 'qva', 'forward_dynamics': 'qvt',
    'all_terms': 'qv',
}
NAMES = {'q': 'q', 'v': 'v', 'a': 'a', 't': 'tau'}


@pytest.mark.filterwarnings('error')
@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize(('value', 'words'), BAD_VECTORS.values(), ids=BAD_VECTORS)
def test_bad_vectors_are_refused_by_every_method(value, words, engine):
    """Each argument of each method is checked; the error names it, and is a ValueError too."""
    arm = load('two_link', engine)
    for method, letters in METHODS.items():
        for bad in range(len(letters)):
            arguments = [np.array([0.3, 0.4])] * len(letters)
            arguments[bad] = value
            with pytest.raises(InvalidArgumentError) as caught:
                getattr(arm, method)(*arguments)
            message = str(caught.value)
            assert message.startswith(NAMES[letters[bad]] + ' '), f'{method}: {message}'
            assert isinstance(caught.value, ValueError)
            assert len(message.splitlines()) == 1, f'{method}: {message}'
            for word in words:
                assert re.search(word, message), f'{method}: {word!r} is not in: {message}'
    for method in ('frame_jacobian', 'frame_rotation'):
        with pytest.raises(InvalidArgumentError, match=r'^q '):
            getattr(arm, method)(value, 'tool0')


@pytest.mark.parametrize('engine', ENGINES)
def test_batches_of_unequal_length_are_refused(engine):
    """Two states of one vector and three of another: the error gives both lengths."""
    arm = load('two_link', engine)
    two, three = np.zeros((2, 2)), np.zeros((3, 2))
    with pytest.raises(InvalidArgumentError, match=r'equal lengths.*q: 2.*v: 3'):
        arm.coriolis_matrix(two, three)
    with pytest.raises(InvalidArgumentError, match=r'equal lengths.*q: 2.*a: 3'):
        arm.inverse_dynamics(two, [0.1, 0.2], three)
    with pytest.raises(InvalidArgumentError, match=r'equal lengths.*tau: 3'):
        arm.forward_dynamics(two, two, three)


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('frame', ['nowhere', '', 'joint1', 'universe', None, 7, ['tool0']],
                         ids=repr)
def test_unknown_frames_are_named_with_those_that_exist(frame, engine):
    """Frames are links: the error lists them, in every engine alike."""
    arm = load('two_link', engine)
    for method in (arm.frame_jacobian, arm.frame_rotation):
        with pytest.raises(UnknownNameError, match=r'unknown frame.*base_link.*link1.*tool0'):
            method([0.1, 0.2], frame)


def test_every_error_is_of_one_tree():
    """Catching LagdynError catches whatever the package raises on purpose."""
    own = [item for item in vars(errors).values()
           if isinstance(item, type) and issubclass(item, Exception)]
    assert len(own) >= 8
    assert all(issubclass(item, LagdynError) for item in own)
    assert all(item.__doc__ for item in own)


def test_the_shipped_arms_load_as_text_bytes_and_path():
    """Text, bytes with or without a byte order mark, and paths are all taken."""
    text = text_of('two_link')
    path = Path(__file__).resolve().parent.parent / 'urdf' / 'two_link.urdf'
    for urdf in (text, text.encode(), b'\xef\xbb\xbf' + text.encode(), '\ufeff' + text, path,
                 str(path)):
        assert load_dynamics(urdf, 'pinocchio').joints == ('joint1', 'joint2')
