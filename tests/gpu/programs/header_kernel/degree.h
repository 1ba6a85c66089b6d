#pragma once

constexpr int kDegree = 24;
