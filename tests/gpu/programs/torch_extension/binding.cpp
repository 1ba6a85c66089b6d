#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

void run_soften(const float* in, float* out, int n, cudaStream_t stream);

at::Tensor soften(const at::Tensor& in) {
    at::Tensor out = at::empty_like(in);
    run_soften(in.const_data_ptr<float>(), out.data_ptr<float>(), static_cast<int>(in.numel()),
               c10::cuda::getCurrentCUDAStream());
    return out;
}

TORCH_LIBRARY(warplens_example, library) { library.def("soften(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(warplens_example, CUDA, library) { library.impl("soften", &soften); }
