// SPDX-License-Identifier: Apache-2.0
#include "device.h"

HOST_CUDA_DEVICES(template struct)
