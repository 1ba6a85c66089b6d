# SPDX-License-Identifier: Apache-2.0
"""What a cause costs: gains from a bounded model, latencies against the warps that hide them, launches and copies."""
