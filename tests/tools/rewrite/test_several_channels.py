# SPDX-License-Identifier: Apache-2.0
"""Output channels that share their input in a thread's registers."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

SIZES = "  int w = atoi(argv[1]), h = atoi(argv[2]), B = 2, IC = 3, OC = 5, K = 3;\n"
RUN = SIZES + (
    "  Device<float> x(B * IC * h * w), f(OC * IC * K * K, 2), b(OC, 3), y(B * OC * h * w, 4);\n"
    "  int n = B * OC * h * w; conv<<<(n + 127) / 128, 128>>>(x, f, b, y, B, IC, OC, h, w, K, 1); y.show();"
)
FLAT = """
__global__ void conv(const float* input, const float* weight, const float* bias, float* output, int batch, int in_c,
                     int out_c, int h, int w, int k, int pad) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total = batch * out_c * h * w;
    if (idx >= total) return;
    int ow = idx % w;
    int oh = (idx / w) % h;
    int oc = (idx / (w * h)) % out_c;
    int b = idx / (w * h * out_c);
    float sum = bias[oc];
    for (int ic = 0; ic < in_c; ++ic)
        for (int kh = 0; kh < k; ++kh)
            for (int kw = 0; kw < k; ++kw) {
                int ih = oh + kh - pad;
                int iw = ow + kw - pad;
                if (ih >= 0 && ih < h && iw >= 0 && iw < w) {
                    sum += input[((b * in_c + ic) * h + ih) * w + iw] * weight[((oc * in_c + ic) * k + kh) * k + kw];
                }
            }
    output[idx] = sum;
}
"""
BLOCKS = """
__global__ void conv(const float* in, const float* weights, const float* bias, float* out, int C, int H, int W,
                     int K, int R) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int k = blockIdx.z;
  int OH = H - R + 1, OW = W - R + 1;
  if (x >= OW || y >= OH) return;
  float sum = bias[k];
  for (int c = 0; c < C; ++c)
    for (int r = 0; r < R; ++r)
      for (int s = 0; s < R; ++s) sum += in[(c * H + y + r) * W + x + s] * weights[((k * C + c) * R + r) * R + s];
  out[(k * OH + y) * OW + x] = fmaxf(sum, 0.0f);
}
"""
BLOCKS_RUN = SIZES + (
    "  (void)B; Device<float> x(IC * h * w), f(OC * IC * K * K, 2), b(OC, 3), y(OC * (h - 2) * (w - 2), 4);\n"
    "  dim3 block(16, 8), grid((w - 2 + 15) / 16, (h - 2 + 7) / 8, OC);\n"
    "  conv<<<grid, block>>>(x, f, b, y, IC, h, w, OC, K); y.show();"
)


def test_channels_of_blocks_share_their_input() -> None:
    after = holds("several-channels", program(BLOCKS, BLOCKS_RUN), (19, 12), (33, 7))
    assert "const int k0 = blockIdx.z * kOutputs;" in after


def test_channels_that_are_divided_out_of_the_blocks_index() -> None:
    after = holds("outputs-in-patches", program(FLAT, RUN), (19, 12), (33, 7))
    assert "[kOutputs2][kOutputs]" in after
    assert (
        "z % ((out_c + kOutputs - 1) / kOutputs)" in after and "((b * out_c + oc) * h + oh) * w + ow" in after
    )


#: Outputs along x with tests of what is inside, and of a step of two.
LINES = """
__global__ void conv(const float* in, const float* w, float* out, int C, int K, int L, int R) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int k = blockIdx.y, b = blockIdx.z;
  if (t >= L) return;
  float sum = 0, norm = w[k];
  for (int c = 0; c < C; c++)
    for (int r = 0; r < R; r++) {
      int at = 2 * t + r - R / 2;
      if (at >= 0 && at < 2 * L) sum += in[(b * C + c) * 2 * L + at] * w[(k * C + c) * R + r];
    }
  out[(b * K + k) * L + t] = sum / norm;
}
"""
LINES_RUN = (
    "  int L = atoi(argv[1]), R = atoi(argv[2]); Device<float> x(2 * 3 * 2 * L), w(6 * 3 * R, 2), y(2 * 6 * L, 4);\n"
    "  conv<<<dim3((L + 31) / 32, 6, 2), 32>>>(x, w, y, 3, 6, L, R); y.show();"
)


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("code", "run", "sizes"),
    [(BLOCKS, BLOCKS_RUN, [(19, 12), (33, 7)]), (LINES, LINES_RUN, [(300, 3), (129, 5), (7, 3)])],
)
def test_channels_and_outputs_are_worked_out_in_tiles(
    code: str, run: str, sizes: list[tuple[int, int]]
) -> None:
    after = holds("channels-in-tiles", program(code, run), *sizes, relative=1e-5)
    assert "[kOutputs2][kOutputs]" in after
    assert "blockDim.x) < L" in after or code == BLOCKS
    for slug in ("several-outputs", "several-channels", "channels-in-tiles"):
        assert rewritten(slug, after)[0].refused


#: The channel and the image are both worked out of the block's index.
DIVIDED = BLOCKS.replace("int k = blockIdx.z;", "int k = blockIdx.z % K;\n  int b = blockIdx.z / K;").replace(
    "in[(c * H", "in[((b * C + c) * H"
)
REFUSED = {
    "an image that changes": (
        DIVIDED.replace("  out[(k * OH", "  b += 0;\n  out[(k * OH"),
        "what its channel is divided out of",
    ),
    "nothing in common": (BLOCKS.replace("in[(c * H", "in[((k + c) * H"), "in common"),
    "a number of channels that is worked out": (BLOCKS, "nothing says how many"),
    "its place in the work": (BLOCKS.replace("fmaxf(sum, 0.0f)", "sum + blockIdx.z"), "place"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_alone(name: str) -> None:
    code, why = REFUSED[name]
    run = BLOCKS_RUN.replace("/ 8, OC)", "/ 8, 2 * OC - OC)") if "worked out" in name else BLOCKS_RUN
    result, _ = rewritten("several-channels", program(code, run))
    assert not result.edits and why in result.refused
