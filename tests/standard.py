# SPDX-License-Identifier: Apache-2.0
"""The standard that programs of tests are compiled by where nothing hangs on it."""

#: The machine code is the same by any, and the host's headers are a third shorter to read than by C++17.
STANDARD = ("-std=c++14",)
#: For programs that may use cooperative groups, whose headers ask for it.
LATER = ("-std=c++17",)
