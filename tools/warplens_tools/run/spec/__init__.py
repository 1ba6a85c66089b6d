# SPDX-License-Identifier: Apache-2.0
"""Launch specs: how a kernel without a program is launched, and the program that is generated from that."""
