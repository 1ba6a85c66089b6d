"""What the smaller parts of CUTLASS and of its examples are for, in words of the field."""

PARTS = """
computes the final sum and maximum of a softmax over partial tiles: reduction second pass normalise
 exponent partial
= ApplySoftmaxFinalReduction reduce_softmax_final.h
applies softmax or layer norm to an operand while loading it: mainloop fusion prologue scale bias operand a
 normalise
= SoftmaxScaleBiasTransform MmaSoftmaxMainloopFusionMultistage MmaLayernormMainloopFusionMultistage
 LayernormScaleBiasTransform GemmLayernormMainloopFusion
multiplies sparse operands at warp or block level (2.x): sparse mma metadata ampere iterator 2:4
= SparseMmaMultistage SparseMmaTensorOp DefaultSparseMma SparseGemmWithVisitor
multiplies complex numbers with three products: gaussian karatsuba 3m complex tensor op
= MmaGaussianComplexTensorOp MmaComplexTensorOp MmaComplexTensorOpFastF32
multiplies operands of two element types at warp level on Ampere: mixed input upcast warp shuffle int8 half
 a100 2.x
= MmaMixedInputTensorOp FragmentShuffler
converts operands between shared memory and wgmma layouts: transpose operand b smem in place wgmma k-major
 fp8 tf32
= sm90_wgmma_transpose.hpp AsyncTranspositionOperandB
lowers a convolution to a product: filter formatting transform krsc crsk problem shape mapping implicit
 gemm sizes
= ConvFilterFormatTransformer implicit_gemm_problem_size convnd_problem_shape.hpp
applies scale, bias or batch norm to activations of a convolution: batchnorm prologue scale bias relu fprop
 wgrad dgrad
= ImplicitGemmFpropFusionMultistage ImplicitGemmWgradFusionMultistage WgradScaleBiasReluTransform
 Sm100BatchNormApply
convolves directly without lowering: direct convolution sliding window depthwise shared memory filter
= DirectConvolution DepthwiseFpropDirectConvMultipleStage MmaDepthwiseSimt
broadcasts whole tensors in an epilogue: tensor broadcast bias residual multiple sources per element
= EpilogueTensorBroadcast LinearCombinationTensorBroadcast
stores results without a shared memory exchange (2.x): direct store epilogue registers to global
= EpilogueDirectStore DefaultEpilogueDirectStore
keeps a tile of accumulators in shared memory: smem accumulator epilogue chained fused
= EpilogueSmemAccumulator AccumulatorSharedStorage
reduces along K in an epilogue: k reduction vector row sum operand
= EpilogueGemmKReduction GemmWithKReduction
computes log-sum-exp or rescales the output of attention: lse logsumexp rescale normalise memory efficient
 epilogue
= ApplyLogSumExp MemoryEfficientAttentionNormalize EpiloguePipelined
computes attention for sequences of different lengths: variable sequence length grouped ragged problem
 visitor nested tensors
= FMHAGrouped DefaultFMHAGrouped fmha_grouped_problem_visitor.h
 41_fused_multi_head_attention/fused_multihead_attention_variable_seqlen.cu
multiplies an operand that already is in shared memory: second product from smem attention probabilities
 times values
= MmaPipelinedFromSharedMemory MmaMultistageFromSharedMemory mma_from_smem.h
computes attention simply, to compare with: reference attention naive verification softmax kernel
= fmha_reference fmha_fwd_reference.hpp fmha_bwd_reference.hpp fmha_reference.hpp
loads keys and values for attention: load warp tma cp.async paged page table block table kv
= sm100_fmha_load_tma_warpspecialized.hpp sm100_fmha_load_cpasync_warpspecialized.hpp
 fmha_collective_load.hpp
combines the split results of latent attention: split kv reduction lse combine flash decoding
= Sm100FmhaMlaReductionKernel sm100_fmha_mla_reduction.hpp
gathers rows before a product in a kernel of its own: gather kernel copy rows standalone
= gather_kernel gather_gemm.hpp IndexedGather make_gather_tensor
scatters rows after a product: scatter epilogue indices output
= EpilogueGatherScatter scatter_epilogue.hpp
combines two products in one epilogue: dual epilogue left right elementwise silu multiply
= DualEpilogue DualMmaMultistage LeftSiLUAndMul
schedules the exchanges of a distributed product: ring all-gather reduce-scatter rotating tiling tensor
 parallel schedule
= AllGather1D_TilingCD_RotatingA ReduceScatter1D_TilingA_RotatingC
 DistributedGemmKernelWrapper
synchronises several GPUs: barrier across devices peer full barrier flags nvlink
= launch_full_barrier full_barrier_kernel
multiplies with the instructions of GeForce Blackwell: sm120 mma.sync fp4 fp6 fp8 block scale rtx 50
= SM120_16x8x32_TN SM120_16x8x64_TN_VS SM120_16x8x32_TN_VS rr_op_selector_sm120
runs the mainloop of GeForce Blackwell: sm120 tma mma.sync collective consumer
= sm120_mma_tma.hpp sm120_blockscaled_mma_tma.hpp sm120_mma_tma_blockwise_scaling.hpp
multiplies sparse operands with wgmma: sparse gmma hopper metadata atom
= GMMA_64x128x32_F32F16F16_SS sm90_sparse_mma_tma_gmma_ss_warpspecialized.hpp
loads with cp.async for wgmma or tcgen05: no tma unaligned small alignment cpasync mainloop
= sm90_mma_multistage_gmma_ss_warpspecialized.hpp sm100_mma_cpasync_warpspecialized.hpp
 KernelCpAsyncWarpSpecialized
multiplies batches and groups in the mainloop: array of pointers ptr array tensormap update mainloop group
= sm90_mma_array_tma_gmma_ss_warpspecialized.hpp sm100_mma_array_warpspecialized.hpp
does arithmetic on pairs of floats: simd packed f32x2 two floats at once fma add mul
= simd_sm100.hpp SM100_2x1x1_F32F32F32F32
loads or stores 256 bits: wide vector 32 bytes v8 no allocate cache blackwell
= SM100_LOAD_256bit_CACHE_NOALLOCATION SM100_STORE_256bit_CACHE_NOALLOCATION
converts an address to the shared state space: cvta generic to shared pointer uint32 cast
= cast_smem_ptr_to_uint cutlass_get_smem_pointer
picks copy operations for a type or tile: copy op selector tmem smem load store choose
= sm90_get_smem_store_op_for_accumulator sm100_get_epilogue_smem_swizzle_layout_atom op_repeater
launches plain kernels from the host: kernel launch wrapper programmatic dependent stream grid block
= kernel_launch CudaHostAdapter device_kernel
replaces parts of the standard library in kernels: std type traits unique_ptr numeric_limits nvrtc
= platform.h unique_ptr
counts bits of a type or bytes of elements: sizeof bits sub-byte size bytes
= sizeof_bits bits_to_bytes
computes with small vectors and matrices in registers: 3d vector matrix rotate transform linear algebra
 quaternion point
= Quaternion thread/matrix.h Matrix Coord
holds mathematical constants: pi e log two ratio constants of a type
= constants.h pi
describes distributions of random test data: uniform gaussian seed range scope mean stddev
= Distribution
finds the devices and their properties: cuda device query select sm version helper
= helper_cuda.hpp DeviceContext query_device_multiprocessor_count
writes tensors to streams: print matrix csv output stream io save
= TensorViewWrite core_io.h ScalarIO
adds, subtracts or multiplies tensors elementwise on the host: elementwise reference add sub mul div
= TensorAdd TensorMul tensor_elementwise.h
contracts or multiplies tensors of CuTe simply, to compare with: reference gett host 3.x epilogue mainloop
 params
= Gett GettMainloopParams GettEpilogueParams gett_kernel
builds weights of mixed products beforehand: encode unify quant pack scale int4 lookup order helper
 dequantize reference
= mixed_dtype_utils.hpp compute_memory_reordering_atom unified_encode_int4b pack_scale_fp8 dequantize
guards experiments with several shapes and orders: raster order swizzle size decomposition mode options
= RasterOrderOptions
checks what a kernel can run: can implement alignment check misaligned operand status
= can_implement check_alignment
copies a tensor or converts its element type on the host: tensor copy cast convert type
= TensorCopy Convert UnaryOp
transposes registers of a thread: transpose 4x4 bytes prmt in-register
= Transpose thread/transpose.h
"""
