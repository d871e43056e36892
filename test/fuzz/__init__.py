# SPDX-License-Identifier: Apache-2.0
"""What a hostile network or a broken file may send: generators and oracles."""
