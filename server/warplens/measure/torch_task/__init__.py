# SPDX-License-Identifier: Apache-2.0
"""PyTorch tasks: a reference `Model` and a `ModelNew` that shall do the same faster.

`examiner.py` and `worker.py` are scripts for the Python that has PyTorch, which need nothing of Warplens there. The
examiner makes inputs, compares and times; only a worker runs `ModelNew`, and it never holds seeds, expected outputs or
a clock that counts.
"""
