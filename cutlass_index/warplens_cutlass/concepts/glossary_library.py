"""What CUTLASS 2.x, its number types and its host utilities are for, in words of the field."""

LIBRARY = """
multiplies matrices through a class on the host (CUTLASS 2.x): device level api template operator call
 default configuration
= device/gemm.h DefaultGemmConfiguration GemmUniversal
splits K in one kernel or batches (2.x): universal mode split k serial parallel batched array
= GemmUniversal GemmUniversalMode gemm/kernel/gemm_universal.h
adds the partial results of a split product: reduction workspace sum slices parallel split k second kernel
 combine
= ReduceSplitK GemmSplitKParallel
lets blocks wait for each other in global memory: semaphore lock serial split-k flag acquire release
 inter-block ordering turns
= Semaphore GenericBarrier NamedBarrierManager
writes stripes of an accumulator with atomics: block striped reduce atomic add workspace
= BlockStriped BlockStripedReduce
reorders blocks for cache reuse: threadblock swizzle rasterisation l2 locality remap block index grid order
 neighbouring
= GemmIdentityThreadblockSwizzle GemmHorizontalThreadblockSwizzle ThreadblockSwizzleStreamK
 threadblock_swizzle.h
multiplies block tiles with two buffers: double buffering pipelined software pipeline prefetch next tile
 registers
= MmaPipelined DefaultMma
multiplies block tiles with many stages of cp.async: multistage asynchronous pipeline ampere depth
= MmaMultistage MmaBase
chooses iterators and warp operators for a block tile: mma core default configuration smem layout thread map
= DefaultMmaCore default_mma_core_sm80.h default_mma_core_sm75.h
multiplies warp tiles with tensor cores (2.x): warp level tensor op fragments mma instruction iterate
= MmaTensorOp DefaultMmaTensorOp
multiplies warp tiles on CUDA cores: simt fma lanes thread tile outer product
= MmaSimt MmaSimtPolicy gemm/thread/mma_sm50.h
wraps one tensor core instruction (2.x): arch mma specialisation opcode shape
= Mma arch/mma_sm80.h OpMultiplyAdd
wraps nvcuda wmma: wmma fragment load_matrix_sync
= Wmma MmaTensorOpWmma
loads fragments from shared memory at warp level (2.x): ldmatrix iterator crosswise congruous operand
= MmaTensorOpMultiplicandTileIterator ldsm
loads tiles from global memory with masks (2.x): predicated iterator guard residue tile first boundary
= PredicatedTileAccessIterator PredicatedTileIterator
writes tiles to shared memory (2.x): regular tile iterator store smem
= RegularTileIterator RegularTileAccessIterator
assigns elements of a tile to threads (2.x): thread map raked stripmined contiguous delta iterations
= PitchLinearWarpRakedThreadMap PitchLinearStripminedThreadMap TransposePitchLinearThreadMap
permutes shared memory for tensor cores (2.x): swizzled layout crosswise congruous multiplicand conflict
 free
= TensorOpMultiplicand TensorOpMultiplicandCrosswise TensorOpMultiplicandCongruous
loads or stores global memory with a guard: predicated asm ld.global st.global vector width cache policy
= global_load global_store
names cache behaviour of loads: cache operation hint streaming last use
= CacheOperation
exchanges the tile of a block through shared memory before storing (2.x): epilogue output tile coalesced
 store
= Epilogue DefaultEpilogueTensorOp EpilogueBase
iterates over the output tile (2.x): output tile iterator row store load c
= epilogue/threadblock/predicated_tile_iterator.h OutputTileThreadMap
computes alpha times accumulator plus beta times source: linear combination scale add c epilogue functor
 output op
= LinearCombination LinearCombinationParams ScaleType
applies an activation after the linear combination (2.x): relu gelu sigmoid silu hardswish leaky clamp
= LinearCombinationRelu LinearCombinationGELU LinearCombinationSilu LinearCombinationClamp
 LinearCombinationGeneric
computes activation functions: relu gelu tanh sigmoid swish silu hardswish leaky elu approximation erf
 functor
= ReLu GELU GELU_taylor SiLu Sigmoid Tanh HardSwish LeakyReLU
computes derivatives of activations in the epilogue: backward drelu dgelu gradient mask
= LinearCombinationDRelu LinearCombinationDGelu dReLU dGELU
adds a residual with an activation: residual connection skip block binary op unary op
= LinearCombinationResidualBlock LinearCombinationBiasElementwise
keeps the largest absolute value while scaling: absmax amax fp8 scale output quantise
= LinearCombinationGenericWithScalingAndAbsMax EpilogueWithAbsMax GemmWithAbsMax
adds a broadcast vector or reduces in the epilogue (2.x): broadcast reduction bias per column fused
= EpilogueWithBroadcast EpilogueWithReduction GemmUniversalWithBroadcast
calls a visitor for each output fragment (2.x): visitor epilogue callback custom evt 2x
= EpilogueWithVisitor GemmWithEpilogueVisitor VisitorCompute TreeVisitor2x
multiplies a matrix with a vector: gemv matrix-vector batched gemv skinny single column bandwidth bound
= Gemv kernel/gemv.h device/gemv.h
multiplies symmetric, triangular or low-rank operands (BLAS 3): syrk syr2k herk symm hemm trmm side fill
 mode uplo triangle
= RankK Rank2K Symm Trmm SideMode FillMode
multiplies complex matrices: complex conjugate transform gaussian 3m real imaginary cgemm zgemm
= GemmComplex ComplexTransform GemmPlanarComplex
convolves by an implicit product: convolution implicit gemm device kernel forward fprop
= ImplicitGemmConvolution DefaultConv2dFprop conv/device/implicit_gemm_convolution.h
computes the gradient of a convolution for its filter: weight gradient wgrad backward filter
= DefaultConv2dWgrad DefaultConv3dWgrad
computes the gradient of a convolution for its input: data gradient dgrad backward data activation strided
= DefaultConv2dDgrad ImplicitGemmConvolutionStridedDgrad DefaultConv3dDgrad
describes a convolution: problem size stride padding dilation groups filter batch height width channels
= Conv2dProblemSize Conv3dProblemSize ConvProblemShape Operator
convolves in three dimensions: 3d volume video depth conv3d
= DefaultConv3dFprop Conv3dProblemSize ImplicitGemmConvolution
walks over activations and filters of a convolution: activation filter tile access iterator analytic
 optimized few channels
= Conv2dFpropActivationTileAccessIteratorOptimized Conv2dFpropActivationTileAccessIteratorAnalytic
 Conv2dFpropFilterTileAccessIteratorOptimized
converts numbers between types: numeric converter cast array round nearest saturate float half int8 fp8
= NumericConverter NumericArrayConverter FastNumericArrayConverter FloatRoundStyle
converts 4-bit or 8-bit integers to halves with bit tricks: fast dequantize unpack lop3 prmt magic number
 int4 int8 weights
= FastNumericArrayConverter NumericArrayConverter
holds 8-bit floats: e4m3 e5m2 fp8 type nan range bias
= float_e4m3_t float_e5m2_t float8_base
holds 4-bit and 6-bit floats: e2m1 e3m2 e2m3 fp4 fp6 nvfp4 mxfp4 scale ue8m0 ue4m3
= float_e2m1_t float_e3m2_t nv_float4_t mx_float4_t float_ue8m0_t float_ue4m3_t
holds 16-bit floats: half precision bf16 brain float conversion arithmetic
= half_t bfloat16_t
holds tf32 numbers: tensor float 32 ten-bit mantissa
= tfloat32_t
holds integers narrower than a byte: int4 uint4 int2 uint1 packed reference
= integer_subbyte int4b_t SubbyteReference ConstSubbyteReference
holds complex numbers or quaternions: complex arithmetic conjugate norm rotation hypercomplex
= complex Quaternion
computes with wide integers: 128-bit 256-bit unsigned integer division multiply
= uint128_t uint256_t
divides quickly by a number known only at run time: fast divmod magic multiplier shift modulo invariant
 division
= FastDivmod FastDivmodU64 find_divisor fast_divmod
approximates math functions: fast tanh exp log sqrt rsqrt approximate intrinsics
= fast_tanh fast_exp fast_log
does arithmetic on whole arrays: elementwise array operators vectorised half2 plus multiply fma functor
= Array multiplies plus multiply_add
combines values in reductions: minimum maximum nan propagation sum of squares absolute value functor
= maximum minimum maximum_with_nan_propagation magnitude_squared plus
adds atomically: atomic add half2 float global accumulate red
= atomic_add atomic_maximum
points to data with strides: tensor ref view reference pointer layout extent
= TensorRef TensorView
names memory layouts (2.x): row major column major nhwc interleaved affine packed stride
= RowMajor ColumnMajor TensorNHWC ColumnMajorInterleaved AffineRank2ColumnMajor
counts sizes and coordinates: gemm coordinate matrix coord tensor coord extent m n k
= GemmCoord MatrixCoord Tensor4DCoord GemmShape
permutes tensors while storing: permute layout 0213 20314 4d 5d batch heads
= Tensor4DPermute0213RowMajor Tensor5DPermute20314RowMajor Tensor4DPermuteBMM0213RowMajor
reduces a whole tensor on the device: tensor reduction sum max affine contiguous strided scalar
= TensorReduction TensorReductionAffineContiguous TensorReductionAffineStrided
transforms a matrix on the device: transpose reformat filter formatter transform universal
= TransformUniversalAdapter ConvFilterFormatTransformer
prints or traces when debugging: trace host error synclog log deadlock hang
= CUTLASS_TRACE_HOST synclog_setup
reports errors: status code error string check macro abort
= Status cutlassGetStatusString CUTLASS_CHECK CUDA_CHECK
measures how long a kernel takes: timer time timing elapsed milliseconds seconds benchmark events stopwatch
 throughput tflops
= GpuTimer GPU_Clock
reads options of a program: command line flags arguments argv parse option usage
= CommandLine get_cmd_line_argument GettCommandLine
holds a tensor on the host and on the device: mirrored host tensor synchronise copy allocate test data
= HostTensor sync_device HostTensorPlanarComplex
allocates device memory that frees itself: raii smart pointer cudaMalloc allocation reset copy to host
= DeviceAllocation device_memory.h
fills tensors with data: random uniform gaussian normal sequential identity diagonal sparse metadata seed
 initialise
= TensorFillRandomUniform TensorFillRandomGaussian BlockFillRandomUniform TensorFillSequential
 TensorFillIdentity
 BlockFillSequential TensorFillRandomSparseMeta
compares results: equal relatively tolerance epsilon verify check difference error
= TensorEquals BlockCompareRelativelyEqual TensorRelativelyEquals relatively_equal BlockCompareEqual
measures numerical error: norm relative error metric mean squared difference
= TensorNorm TensorRelativeErrorMetric TensorNormDiff TensorSumSqDiff
computes a product on the host or simply, to compare with: reference gemm verification ground truth cpu
 naive
= reference/host/gemm.h reference/device/gemm.h compute_gemm GemmComplex Gett
computes a convolution simply, to compare with: reference convolution verification cpu
= reference/host/convolution.h reference/device/convolution.h Conv2dFprop
normalises rows in a kernel of its own: layer norm rms norm group norm mean variance gamma beta standalone
= layernorm rmsnorm groupnorm device_layernorm.h device_rmsnorm.h
pools, pads or reorders images: max average pooling padding channels nchw nhwc transpose image layout
 conversion
= pooling_nhwc nhwc_padding nchw_to_nhwc nhwc_to_nchw
sums over a warp or a block: warp reduce block reduce shuffle butterfly all-reduce sum max
= warpReduceSum blockReduceSum warpReduceMax blockReduceMax
reorders weights before the kernel: interleave reorder column host shuffle offline weight layout mixed
= reorder_column reorder_meta reorder_tensor compute_memory_reordering_atom
expands compressed sparse matrices: uncompress decompress metadata dense sparse host
= uncompress uncompress_ell_block_sparse
makes strides for packed tensors: packed stride batch stride host arguments
= make_cute_packed_stride
calls cuBLAS for comparison: cublas wrapper handle vendor library
= cublas_wrappers.hpp cublas_helpers.h
runs many kernels over many sizes and reports: profiler sweep benchmark report csv gflops verification
 providers
= CutlassProfiler GemmOperationProfiler PerformanceReport ProblemSpace OperationProfiler
collects kernel instances behind one interface: library manifest operation handle table dispatch run time
 selection instances
= Manifest Handle OperationTable Operation GemmOperation
masks future positions or padding in attention: causal mask residual mask window fusion
= CausalMask ResidualMask CausalFusion NoMask
keeps running maximum and sum for a softmax: online softmax rescale streaming maximum denominator
= CollectiveSoftmax FmhaMainloopTmaWarpSpecialized
schedules attention tiles: attention scheduler heads batch persistent causal individual
= fmha_tile_scheduler.hpp CausalIndividualTileScheduler PersistentTileScheduler
computes the row sums that the attention gradient needs: sum of o times do delta preprocess backward
= FmhaKernelBwdSumOdO
opts in to more than 48 KB of shared memory: dynamic shared memory attribute maximum carve-out launch
 kernel generic
= device_kernel sm90_smem_capacity_bytes
holds a fixed number of elements aligned: array fragment aligned register storage container
= Array AlignedArray AlignedBuffer
packs predicates into bits: predicate vector bit mask register
= PredicateVector
swaps the roles of A and B: transpose operands swap problem column-major output row-major trick
= MapArguments gemm_transpose_operands.h
"""
