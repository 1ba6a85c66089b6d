#pragma once

void run_smooth(const float* in, float* out, int n);
