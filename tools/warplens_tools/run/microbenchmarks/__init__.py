# SPDX-License-Identifier: Apache-2.0
"""The ruler kernels, CUDA source shipped as data; `warplens_tools.collect.calibrate` builds and runs them."""
