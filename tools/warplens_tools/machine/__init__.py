# SPDX-License-Identifier: Apache-2.0
"""What the machine makes of a kernel: traffic, bank conflicts, waits, contention, launches, and what a repair gains."""
