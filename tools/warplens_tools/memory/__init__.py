# SPDX-License-Identifier: Apache-2.0
"""What a warp's memory accesses cost, from the lanes' addresses: sectors, bank conflicts, serialised atomics, reuse."""
