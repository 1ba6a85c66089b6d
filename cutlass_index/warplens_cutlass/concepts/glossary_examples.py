"""What each example program of CUTLASS shows, in words of the field."""

EXAMPLES = """
multiplies float matrices in the simplest way: first steps hello world minimal starting plain sgemm simt
 column major
= 00_basic_gemm/basic_gemm.cu
uses the host utilities around a product: utilities helper host tensor allocate fill reference verify half
= 01_cutlass_utilities/cutlass_utilities.cu
shows what registers and shared memory hold: inspect debugging print contents fragment dump warp
= 02_dump_reg_shmem/dump_reg_shmem.cu dump_fragment dump_shmem
draws memory layouts on the command line: visualise visualize picture layout bank threads csv
= 03_visualize_layout/register_layout.cu
copies a matrix with a tile iterator: load store tiles global memory iterate pitch linear predicated
= 04_tile_iterator/tile_iterator.cu
multiplies many equal-sized matrices in one launch: batched strided batch array of pointers same size
= 05_batched_gemm/batched_gemm.cu GemmBatched GemmArray
splits a long K over blocks and adds the parts: split-k slices partial sums workspace small output large k
= 06_splitK_gemm/splitk_gemm.cu GemmSplitKParallel
uses the tensor cores of Volta: v100 first generation tensor core mma 884 half
= 07_volta_tensorop_gemm/volta_tensorop_gemm.cu
uses the integer tensor cores of Turing: t4 int8 quantized inference s8 dp 8816 interleaved
= 08_turing_tensorop_gemm/turing_tensorop_gemm.cu
convolves with Turing tensor cores: int4 convolution forward inference quantized cnn nhwc
= 09_turing_tensorop_conv2dfprop/turing_tensorop_conv2dfprop.cu
multiplies complex matrices with split real and imaginary planes: planar complex real imaginary separate
 arrays batched
= 10_planar_complex/planar_complex.cu 11_planar_complex_array/planar_complex_array.cu GemmPlanarComplex
adds a bias vector and clips at zero after a product: bias relu linear layer fully connected dense layer
 activation
= 12_gemm_bias_relu/gemm_bias_relu.cu
keeps the result of the first product on chip for the second: back to back b2b two chained consecutive fuse
 fusion
 intermediate register file resident shared memory resident mlp convolution pair
= 13_two_tensor_op_fusion/fused_two_gemms_f16_sm80_rf.cu
 13_two_tensor_op_fusion/fused_two_gemms_f16_sm80_shmem.cu
 13_two_tensor_op_fusion/fused_two_convs_f16_sm80_rf.cu B2bGemm B2bImplicitGemmConvolution
feeds float data to Ampere tensor cores as tf32: a100 float inputs tensor float 19 bit single precision
 tensor cores
= 14_ampere_tf32_tensorop_gemm/ampere_tf32_tensorop_gemm.cu
multiplies pruned weights on Ampere: structured sparsity pruning 2:4 50% zeros metadata a100 sparse tensor
 core
= 15_ampere_sparse_tensorop_gemm/ampere_sparse_tensorop_gemm.cu
 15_ampere_sparse_tensorop_gemm/ampere_sparse_tensorop_gemm_with_visitor.cu SparseGemm
convolves images with Ampere tensor cores: implicit gemm forward cnn nhwc resnet a100 half
= 16_ampere_tensorop_conv2dfprop/ampere_tensorop_conv2dfprop.cu
convolves and adds a bias per output channel: channel bias convolution relu broadcast
= 17_fprop_per_channel_bias/fprop_per_channel_bias.cu
multiplies double precision matrices of arbitrary strides: fp64 dmma affine rank 2 layout both strides a100
 hpc
= 18_ampere_fp64_tensorop_affine2_gemm/ampere_fp64_tensorop_affine2_gemm.cu
builds a product by hand from the warp level of CUTLASS 2: canonical single block warp level api tensor op
 own kernel
= 19_tensorop_canonical/tensorop_canonical.cu 20_simt_canonical/simt_canonical.cu
multiplies quaternions: hypercomplex rotation 4 component numbers
= 21_quaternion_gemm/quaternion_gemm.cu 22_quaternion_conv/quaternion_conv.cu Quaternion
sums an operand along K while multiplying: operand reduction row sum column sum of a or b bias gradient
 mainloop
= 23_ampere_gemm_operand_reduction_fusion/ampere_gemm_operand_reduction_fusion.cu GemmWithKReduction
multiplies groups of matrices of different sizes: variable ragged problem sizes group one launch many small
= 24_gemm_grouped/gemm_grouped.cu GemmGrouped BaseGroupedProblemVisitor
applies batch norm and relu to the activation while convolving: batchnorm scale bias relu input fused
 prologue mainloop
= 25_ampere_fprop_mainloop_fusion/ampere_fprop_mainloop_fusion.cu
 26_ampere_wgrad_mainloop_fusion/ampere_wgrad_mainloop_fusion.cu ImplicitGemmConvolutionFusion
gets nearly float accuracy from tf32 tensor cores: 3xtf32 precise accurate error compensation big small
 three emulation
= 27_ampere_3xtf32_fast_accurate_tensorop_gemm/27_ampere_3xtf32_fast_accurate_tensorop_gemm.cu
 28_ampere_3xtf32_fast_accurate_tensorop_fprop/ampere_3xtf32_fast_accurate_tensorop_fprop.cu
 MmaTensorOpFastF32
 29_ampere_3xtf32_fast_accurate_tensorop_complex_gemm/29_3xtf32_complex_gemm.cu
splits the weight gradient of a convolution over K: wgrad split k backward filter training partial
= 30_wgrad_split_k/30_wgrad_split_k.cu
multiplies a matrix with its own transpose: syrk rank-k update symmetric triangle lower upper half a times
 a transposed
 blas3 gram covariance
= 31_basic_syrk/basic_syrk.cu RankK RankKUniversal
multiplies with a triangular matrix: trmm triangular lower upper blas3
= 32_basic_trmm/basic_trmm.cu Trmm
multiplies with a symmetric or hermitian matrix: symm hemm symmetric hermitian blas3
= 33_ampere_3xtf32_tensorop_symm/ampere_3xtf32_tensorop_symm.cu Symm
upsamples with a transposed convolution: deconvolution deconv upsampling fractionally strided gan decoder
 unet
= 34_transposed_conv2d/34_transposed_conv2d.cu DefaultDeconv2d
normalises the rows of a product to probabilities: softmax exponent row maximum sum after gemm epilogue
 partial
= 35_gemm_softmax/gemm_softmax.cu GemmSoftmax EpilogueVisitorSoftmax
picks and writes rows by an index array in the product: gather scatter indices indirect embedding lookup
 sparse rows
= 36_gather_scatter_fusion/gather_scatter_fusion.cu
 52_hopper_gather_scatter_fusion/52_hopper_gather_scatter_fusion.cu
normalises between two products: layernorm mean variance gamma beta transformer fused gemm
= 37_gemm_layernorm_gemm_fusion/gemm_layernorm.cu GemmLayernorm
updates several symmetric matrices at once: syr2k rank-2k grouped symmetric
= 38_syr2k_grouped/syr2k_grouped.cu Rank2K Rank2KGrouped
writes the product in a permuted order: permute permutation transpose output reshape tensor 4d 5d attention
 heads
= 39_gemm_permute/gemm_permute.cu 53_hopper_gemm_permute/53_hopper_gemm_permute.cu
 Tensor4DPermute0213RowMajor
computes attention without storing the scores: memory efficient transformer query key value scores softmax
 heads xformers
 multi-head
= 41_fused_multi_head_attention/fused_multihead_attention_fixed_seqlen.cu AttentionKernel
 41_fused_multi_head_attention/fused_multihead_attention_variable_seqlen.cu
differentiates attention: backward gradient dq dk dv training transformer attention
= 41_fused_multi_head_attention/fused_multi_head_attention_backward.cu AttentionBackwardKernel
 77_blackwell_fmha/77_blackwell_fmha_bwd.cu Sm100FmhaBwdKernelTmaWarpSpecialized
 88_hopper_fmha/collective/fmha_collective_bwd_tma_warpspecialized.hpp
convolves groups of channels separately: group convolution resnext channels per group
= 42_ampere_tensorop_group_conv/ampere_tensorop_group_conv.cu
skips empty blocks of a sparse matrix: block sparse ell blocked-ellpack index nonzero blocks spmm
= 43_ell_block_sparse_gemm/ell_block_sparse_gemm.cu EllGemm
multiplies one input with two weights and combines the results: dual gemm swiglu gated silu gate up
 projection llama ffn glu
= 45_dual_gemm/dual_gemm.cu DualGemm
convolves each channel with its own filter: depthwise mobilenet separable channel simt direct
= 46_depthwise_simt_conv2dfprop/depthwise_simt_conv2dfprop.cu DefaultDepthwiseFprop
balances the work of a product over all SMs on Ampere: stream-k wave quantization tail even split load
 balance last wave
= 47_ampere_gemm_universal_streamk/ampere_gemm_universal_streamk.cu ThreadblockSwizzleStreamK
 74_blackwell_gemm_streamk/blackwell_gemm_streamk.cu PersistentTileSchedulerSm90StreamK
multiplies with TMA and wgmma on Hopper: h100 warp specialized basic starting hopper producer consumer first
= 48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm.cu
lets the builder choose the kernel on Hopper: collective builder schedule auto stages carveout kernel
 schedule choose visitor
= 49_hopper_gemm_with_collective_builder/49_collective_builder.cu CollectiveBuilder
writes the output through a swizzled shared tile of one's own: custom epilogue swizzle smem layout copy
 atom store
= 50_hopper_gemm_with_epilogue_swizzle/50_hopper_gemm_with_epilogue_swizzle.cu
contracts tensors of any rank on Hopper: einsum tensor contraction gett modes multi-mode
= 51_hopper_gett/51_hopper_gett.cu
multiplies 8-bit floats on Hopper: fp8 e4m3 e5m2 scale amax aux transformer engine h100 quantized
= 54_hopper_fp8_warp_specialized_gemm/54_hopper_fp8_warp_specialized_gemm.cu
multiplies narrow weights with wider activations on Hopper: int4 int8 weight-only quantization mixed w4a16
 w8a16 awq gptq
 dequantize upcast scales zero points llm
= 55_hopper_mixed_dtype_gemm/55_hopper_mixed_dtype_gemm.cu
 55_hopper_mixed_dtype_gemm/55_hopper_int4_bf16_gemm.cu
 55_hopper_mixed_dtype_gemm/55_hopper_int4_fp8_gemm.cu
multiplies batches given by arrays of pointers on Hopper: pointer array batched non contiguous batch
= 56_hopper_ptr_array_batched_gemm/56_hopper_ptr_array_batched_gemm.cu
multiplies groups of different sizes on Hopper: grouped tensormap update ptr array persistent variable sizes
= 57_hopper_grouped_gemm/57_hopper_grouped_gemm.cu
multiplies 8-bit floats on Ada: l40 4090 fp8 ada lovelace
= 58_ada_fp8_gemm/ada_fp8_gemm.cu 64_ada_fp8_gemm_grouped/ada_fp8_gemm_grouped.cu
convolves gathered points with CuTe: sparse 3d convolution gather scatter point cloud custom stride cute
 ampere
= 59_ampere_gather_scatter_conv/ampere_gather_scatter_conv.cu
keeps the k largest values of each row and normalises them: top-k routing router expert selection softmax
 logits largest
= 61_hopper_gemm_with_topk_and_softmax/61_hopper_gemm_with_topk_and_softmax.cu Sm90TopKSoftmaxColReduction
multiplies pruned matrices on Hopper: sparse structured 2:4 h100 compressed metadata
= 62_hopper_sparse_gemm/62_hopper_sparse_gemm.cu
loads weights ahead of the dependent kernel: prefetch l2 weights overlap previous kernel latency bound
 small batch pdl
= 63_hopper_gemm_with_weight_prefetch/63_hopper_gemm_with_weight_prefetch.cu
spreads one product over several GPUs: multi gpu tensor parallel nvlink all-gather reduce-scatter
 communication overlap peer
= 65_distributed_gemm/65_distributed_gemm.cu 82_blackwell_distributed_gemm/82_blackwell_distributed_gemm.cu
scales 8-bit floats per block of the operands on Hopper: deepseek block scaling 128x128 1x128 fine-grained
 quantization
 blockwise groupwise promotion per tile scale factors
= 67_hopper_fp8_warp_specialized_gemm_with_blockwise_scaling.cu
 67_hopper_fp8_warp_specialized_gemm_with_groupwise_scaling.cu
scales blocks in grouped products on Hopper: grouped fp8 blockwise scales moe experts deepseek
= 68_hopper_fp8_warp_specialized_grouped_gemm_with_blockwise_scaling.cu
multiplies groups with narrow weights: grouped mixed int4 experts weight-only moe
= 69_hopper_mixed_dtype_grouped_gemm/69_hopper_mixed_dtype_grouped_gemm.cu
multiplies with tcgen05 on Blackwell: b200 basic first blackwell sm100 umma tensor memory half fp8
= 70_blackwell_gemm/70_blackwell_fp16_gemm.cu 70_blackwell_gemm/70_blackwell_fp8_gemm.cu
lets the builder choose the kernel on Blackwell: builder 1sm 2sm schedule auto
= 71_blackwell_gemm_with_collective_builder/71_blackwell_gemm_with_collective_builder.cu
multiplies 4-bit floats with scale factors on Blackwell: nvfp4 mxfp4 mxfp8 narrow precision block scaled
 microscaling ocp
 scale factor generation
= 72_blackwell_narrow_precision_gemm/72a_blackwell_nvfp4_bf16_gemm.cu
 72_blackwell_narrow_precision_gemm/72b_blackwell_nvfp4_nvfp4_gemm.cu
 72_blackwell_narrow_precision_gemm/72c_blackwell_mixed_mxfp8_bf16_gemm.cu
launches with a preferred and a fallback cluster size: preferred fallback cluster shape dynamic occupancy
 leftover SMs
= 73_blackwell_gemm_preferred_cluster/blackwell_gemm_preferred_cluster.cu
multiplies groups of different sizes on Blackwell: grouped b200 sm100 ptr array
= 75_blackwell_grouped_gemm/75_blackwell_grouped_gemm.cu
 75_blackwell_grouped_gemm/75_blackwell_grouped_gemm_block_scaled.cu
convolves on Blackwell: convolution b200 umma im2col forward data gradient weight gradient
= 76_blackwell_conv/76_blackwell_conv_fprop.cu 76_blackwell_conv/76_blackwell_conv_dgrad.cu
 76_blackwell_conv/76_blackwell_conv_wgrad.cu
computes attention on Blackwell: b200 flash attention prefill forward fmha causal variable length gqa
= 77_blackwell_fmha/77_blackwell_fmha.cu Sm100FmhaFwdKernelTmaWarpspecialized
 Sm100FmhaFwdMainloopTmaWarpspecialized
answers one query against a cache of keys and values: decode generation inference kv cache paged single
 token append
= 77_blackwell_fmha/77_blackwell_fmha_gen.cu Sm100FmhaGenKernelWarpspecialized
attends to a compressed latent cache: mla multi-head latent attention deepseek rope absorbed decode paged
= 77_blackwell_fmha/77_blackwell_mla.cu 77_blackwell_fmha/77_blackwell_mla_fwd.cu
 Sm100FmhaMlaKernelTmaWarpspecialized
imitates float products with nine bfloat16 products: emulation fp32 accuracy bf16x9 split three parts
= 78_blackwell_emulated_bf16x9_gemm/78_blackwell_emulated_bf16x9_gemm.cu
multiplies 4-bit floats on GeForce Blackwell: rtx 5090 5080 consumer sm120 nvfp4 mxfp8 mxfp6 desktop
= 79_blackwell_geforce_gemm/79a_blackwell_geforce_nvfp4_bf16_gemm.cu
 79_blackwell_geforce_gemm/79b_blackwell_geforce_nvfp4_nvfp4_gemm.cu
 79_blackwell_geforce_gemm/79c_blackwell_geforce_mixed_mxfp8_mxfp6_bf16_gemm.cu
multiplies pruned matrices on GeForce Blackwell: sparse consumer rtx sm120 2:4
= 80_blackwell_geforce_sparse_gemm/80a_blackwell_geforce_mxfp8_bf16_sparse_gemm.cu
scales blocks in software on Blackwell: blockwise groupwise fp8 float scales deepseek b200
= 81_blackwell_gemm_blockwise/81_blackwell_gemm_blockwise.cu
 81_blackwell_gemm_blockwise/81_blackwell_gemm_groupwise.cu
multiplies pruned matrices on Blackwell: sparse b200 structured compressed tcgen05
= 83_blackwell_sparse_gemm/83_blackwell_sparse_gemm.cu
 84_blackwell_narrow_precision_sparse_gemm/84a_blackwell_nvfp4_bf16_sparse_gemm.cu
multiplies narrow weights with wider activations on Blackwell: mixed input int4 int8 weight-only upcast
 transform b200
= 86_blackwell_mixed_dtype_gemm/86_blackwell_mixed_dtype.cu
scales blocks on GeForce Blackwell: consumer rtx fp8 blockwise groupwise
= 87_blackwell_geforce_gemm_blockwise/87a_blackwell_geforce_fp8_bf16_gemm_blockwise.cu
computes attention on Hopper: h100 flash attention fmha wgmma tma forward backward online softmax
= 88_hopper_fmha/88_hopper_fmha.cu FmhaMainloopTmaWarpSpecialized CollectiveSoftmax
multiplies 4-bit floats on Blackwell Ultra: b300 sm103 ultra fp4 k96
= 89_sm103_fp4_ultra_gemm/89_sm103_fp4_ultra_gemm.cu
 90_sm103_fp4_ultra_grouped_gemm/90_sm103_fp4_ultra_grouped_gemm.cu
multiplies a 4-bit float matrix with a vector: gemv nvfp4 decode single token matrix vector scale factors
= 91_fp4_gemv/91_fp4_gemv.cu GemvBlockScaled
multiplies per expert with few tokens: mixture of experts moe decode tokens routing ragged small batch low
 latency
= 92_blackwell_moe_gemm/92_blackwell_moe_gemm_regular.cu
 92_blackwell_moe_gemm/92_blackwell_moe_gemm_grouped.cu
teaches CuTe with a plain product: tutorial lesson step by step introduction learn cute partition
 local_tile naive
= tutorial/sgemm_1.cu tutorial/sgemm_2.cu tutorial/sgemm_sm70.cu tutorial/sgemm_sm80.cu
teaches copying with CuTe: tutorial copy vectorized tiled copy simple kernel load store
= tutorial/tiled_copy.cu tutorial/tiled_copy_if.cu TiledCopy
teaches wgmma and TMA with CuTe on Hopper: tutorial hopper cute wgmma tma pipeline minimal standalone
= hopper/wgmma_sm90.cu hopper/wgmma_tma_sm90.cu
teaches tcgen05 with CuTe on Blackwell: tutorial blackwell umma tensor memory tma multicast two SM pair
 epilogue minimal
= blackwell/01_mma_sm100.cu blackwell/02_mma_tma_sm100.cu blackwell/03_mma_tma_multicast_sm100.cu
 blackwell/04_mma_tma_2sm_sm100.cu blackwell/05_mma_tma_epi_sm100.cu
"""
