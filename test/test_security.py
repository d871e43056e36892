# SPDX-License-Identifier: Apache-2.0
"""What the SROS 2 policy allows is what the nodes do, no more and no less."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from shipped import text_of

pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

from ros_graph import LATCHED, Probe, running
from std_msgs.msg import String

POLICY = Path(__file__).resolve().parents[1] / 'config' / 'sros2_policy.xml'
NODES = {'lagdyn': 'dynamics_node', 'arm_simulator': 'arm_simulator'}
RULES = {'topics': {'publish', 'subscribe'}, 'services': {'reply', 'request'}}
# rclpy serves it from ROS 2 Jazzy on.
NEWER = () if find_spec('rclpy.type_description_service') else ('~/get_type_description',)

Rights = dict[str, set[str]]  # publish, subscribe, reply, request -> full names


def full_name(profile: ElementTree.Element, name: str) -> str:
    """Return the full name of a topic or service as the node of a profile sees it."""
    if name.startswith('/'):
        return name
    namespace = profile.attrib['ns'].rstrip('/') + '/'
    return namespace + (profile.attrib['node'] + name[1:] if name.startswith('~/') else name)


def allowed(node: str) -> Rights:
    """Return what the policy allows a node in the enclave of its own name."""
    profile = ElementTree.parse(POLICY).find(
        f'./enclaves/enclave[@path="/{node}"]/profiles/profile[@node="{node}"]')
    assert profile is not None
    rights: Rights = {right: set() for rights in RULES.values() for right in rights}
    for rule in profile:
        for right in rule.attrib:
            rights[right] |= {
                full_name(profile, entry.text) for entry in rule if entry.text not in NEWER}
    return rights


@pytest.fixture(scope='module')
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probe]:
    """Run both nodes with all they can have: markers, a simulated clock, the topic of the URDF."""
    own = {'dynamics_node': {'markers.enabled': True}, 'arm_simulator': {}}
    with ExitStack() as stack:
        processes = [
            stack.enter_context(running(
                module, tmp_path_factory.mktemp(module),
                {'use_sim_time': True, **own[module]}, arguments=['--enclave', f'/{node}']))
            for node, module in NODES.items()]
        probe = stack.enter_context(Probe('/lagdyn', *processes))
        description = probe.publisher(String, 'robot_description', LATCHED)
        description.publish(String(data=text_of('two_link')))
        probe.wait_for_state('active')
        yield probe


def used(probe: Probe, node: str) -> Rights:
    """Return what a node does, as the ROS graph shows it."""
    ask = probe.node
    probe.wait_for(lambda: node in ask.get_node_names(), what=f'{node} in the graph')
    found = {
        'publish': ask.get_publisher_names_and_types_by_node,
        'subscribe': ask.get_subscriber_names_and_types_by_node,
        'reply': ask.get_service_names_and_types_by_node,
        'request': ask.get_client_names_and_types_by_node,
    }
    return {right: {name for name, _ in names(node, '/')} for right, names in found.items()}


def test_the_policy_has_the_form_that_sros2_reads() -> None:
    """Version 0.2.0: enclaves, profiles, and rules that allow something, each name once."""
    policy = ElementTree.parse(POLICY).getroot()
    assert (policy.tag, policy.attrib) == ('policy', {'version': '0.2.0'})
    assert [element.tag for element in policy] == ['enclaves']
    enclaves = policy.findall('./enclaves/*')
    assert [(one.tag, one.attrib) for one in enclaves] == [
        ('enclave', {'path': f'/{node}'}) for node in NODES]
    for enclave, node in zip(enclaves, NODES, strict=True):
        (profiles,) = enclave
        (profile,) = profiles
        assert (profiles.tag, profile.tag) == ('profiles', 'profile')
        assert profile.attrib == {'ns': '/', 'node': node}
        names: Counter[tuple[str, str]] = Counter()
        for rule in profile:
            assert rule.attrib, rule.tag
            assert set(rule.attrib) <= RULES[rule.tag]
            assert set(rule.attrib.values()) == {'ALLOW'}
            for entry in rule:
                assert (entry.tag, entry.attrib) == (rule.tag.removesuffix('s'), {})
                assert entry.text and not set(entry.text) & set('*?[] \n')
                names.update((right, entry.text) for right in rule.attrib)
        assert set(names.values()) == {1}


@pytest.mark.parametrize('node', NODES)
def test_the_policy_allows_what_a_node_does_and_nothing_else(probe: Probe, node: str) -> None:
    """Every topic and service, compared with the ROS graph both ways."""
    rights = allowed(node)
    with suppress(AssertionError):  # the comparison below says more
        probe.wait_for(lambda: used(probe, node) == rights)
    assert used(probe, node) == rights


def test_who_moves_the_arm_and_who_reads_its_torques() -> None:
    """In the policy only the simulator publishes joint states, and only lagdyn commands."""
    publish = {node: allowed(node)['publish'] for node in NODES}
    subscribe = {node: allowed(node)['subscribe'] for node in NODES}
    assert [node for node in NODES if '/joint_states' in publish[node]] == ['arm_simulator']
    assert [node for node in NODES if '/lagdyn/command' in publish[node]] == ['lagdyn']
    assert not any('/lagdyn/command' in topics for topics in subscribe.values())
