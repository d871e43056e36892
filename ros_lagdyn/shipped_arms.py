# SPDX-License-Identifier: Apache-2.0
"""The arms that come with the package, their documents, and where their URDFs are."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ros_lagdyn.errors import LagdynError, UnknownNameError


@dataclass(frozen=True, kw_only=True)
class ShippedArm:
    """One arm of the documents."""

    stem: str
    title: str
    documents: str


SHIPPED_ARMS = (
    ShippedArm(stem='two_link', title='planar elbow',
               documents='000 example 5-2, 001 planar elbow, 004'),
    ShippedArm(stem='two_link_remote', title='planar elbow, second motor at the base',
               documents='000 example 5-3, 001 remotely driven link'),
    ShippedArm(stem='five_bar', title='five-bar parallelogram linkage',
               documents='001 five-bar linkage'),
    ShippedArm(stem='spatial_3r', title='spatial elbow', documents='003'),
    ShippedArm(stem='cartesian', title='two slides at right angles',
               documents='001 coupling analysis'),
    ShippedArm(stem='skew_cartesian', title='two slides at 60 degrees',
               documents='001 coupling analysis'),
    ShippedArm(stem='prismatic_revolute', title='revolute joint on a slide',
               documents='001 coupling analysis'),
    ShippedArm(stem='spherical_pendulum', title='spherical pendulum', documents='003'),
)
STEMS = tuple(arm.stem for arm in SHIPPED_ARMS)


def shipped_urdf(stem: str) -> Path:
    """Return the path of a shipped URDF.

    Raises:
        UnknownNameError: no arm of this stem is shipped.
        LagdynError: the package is installed without its URDFs.
    """
    if stem not in STEMS:
        raise UnknownNameError('arm', stem, STEMS)
    folders = list(_share_folders())
    for folder in folders:
        path = folder / 'urdf' / f'{stem}.urdf'
        if path.is_file():
            return path
    raise LagdynError(f'urdf/{stem}.urdf is in none of ' + ', '.join(map(str, folders))
                      + ': install the package with pip or colcon')


def _share_folders() -> Iterator[Path]:
    """Yield where the package's share folder may be: the checkout, ROS prefixes, this Python."""
    package = Path(__file__).resolve().parent
    yield package.parent
    share = Path('share', 'ros_lagdyn')
    for prefix in os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep):
        if prefix:
            yield Path(prefix) / share
    # <prefix>/lib/pythonX.Y/site-packages/ros_lagdyn, as pip and colcon install it.
    for parent in list(package.parents)[3:5]:
        yield parent / share
    yield Path(sysconfig.get_path('data')) / share
