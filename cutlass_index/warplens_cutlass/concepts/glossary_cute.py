"""What the parts of CuTe, and of CUTLASS 3.x built on it, are for, in words of the field."""

CUTE = """
describes how coordinates map to memory: shape stride layout function row major column major offset
 hierarchical nested
= Layout make_layout make_shape make_stride
joins a pointer with a layout: tensor view wrap raw pointer array multidimensional array span
= make_tensor Tensor make_gmem_ptr make_smem_ptr
gives each block its tile of a tensor: block tile cta coordinate partition subtensor problem slice per block
= local_tile zipped_divide flat_divide
gives each thread its part of a tile: thread partition distribute elements among threads per thread slice
 stripe
= local_partition outer_partition partition_S partition_D
joins or reorders modes: group modes flatten nested rank merge dimensions select order reorder
= group_modes flatten select group make_ordered_layout
makes a layout simpler without changing it: coalesce merge contiguous modes simplify stride zero filter
= coalesce filter filter_zeros
applies one layout after another: composition function compose reshape tiler sublayout
= composition ComposedLayout
cuts a layout into tiles: divide split by tiler tiles blocks of a layout
= logical_divide zipped_divide tiled_divide flat_divide
repeats a layout over another: product reproduce tile replicate blocked raked interleave
= logical_product blocked_product raked_product tile_to_shape
finds what a layout leaves out, or undoes it: complement inverse rest remaining offsets inverse mapping
= complement right_inverse left_inverse
turns a coordinate into an offset and back: index coordinate linear flatten unravel ravel convert
= crd2idx idx2crd
permutes shared memory addresses so that accesses hit different banks: xor swizzle bank conflict free
 permutation bits
 conflict-free shared memory padding
= Swizzle ComposedLayout get_swizzle as_position_independent_swizzle_tensor
views elements as another type: recast reinterpret cast wider narrower type pun vector
= recast recast_ptr upcast downcast
makes a tensor of coordinates for bounds checks: identity tensor predicate out of range mask boundary
 residue
= make_identity_tensor make_coord_tensor elem_less
makes registers shaped like another tensor: register tensor fragment allocate like same shape copy in
 registers
= make_fragment_like make_tensor_like partition_fragment_C
copies one tensor to another: copy load store move assign tensor vectorise automatically
= copy copy_if AutoVectorizingCopy
copies only where a mask says so: predicated conditional copy guard bounds tail remainder
= copy_if
copies with all threads of a block: cooperative copy whole block participate aligned vector
= cooperative_copy
multiplies tensors held by one block: block-wide gemm in kernel all threads shared memory tiles small matrix
= cooperative_gemm gemm
multiplies fragments with an atom: gemm algorithm thread register accumulate mma call
= gemm TiledMMA MMA_Atom
fills or zeroes a tensor: set constant zero initialise clear accumulator
= fill clear
scales and adds tensors: axpby alpha beta linear update blend
= axpby
reduces over modes of a tensor: sum fold accumulate along axis reduction max over mode
= reduce batch_reduce logical_reduce
brings data into the L2 cache early: prefetch cache hint ahead warm
= prefetch cooperative_prefetch prefetch_tma_descriptor
works on tuples at compile time: transform fold map apply for each static loop unroll integer sequence
= transform for_each fold apply make_int_tuple
computes with compile-time numbers: static constant integral constant literal int type template
= C Int integral_constant
rounds up a division of shapes: ceil div number of tiles round up
= ceil_div round_up shape_div
orders strides row-major, column-major or as told: compact packed stride order lexicographic
= make_ordered_layout compact_order LayoutRight LayoutLeft make_cute_packed_stride
stores elements narrower than a byte: sub-byte packed 4-bit array bit iterator
= array_subbyte subbyte_iterator
prints a tensor, a layout or an atom: show display debug dump console
= print print_tensor print_layout
draws a layout or an atom as a figure: latex tikz svg diagram picture illustrate image paper slide visualise
= print_latex print_latex_mma print_svg print_latex_copy
limits code to one thread when debugging: thread zero only print once
= thread0 block0 thread
assembles a multiplication over all threads from an atom: tiled mma thread layout permutation warps repeat
 atom
= make_tiled_mma TiledMMA ThrMMA
assembles a copy over all threads from an atom: tiled copy thread layout value layout vector width
= make_tiled_copy TiledCopy ThrCopy Copy_Atom
matches a copy with the operands of a multiplication: retile copy fragment a b c operand s2r smem to
 register r2s
= make_tiled_copy_A make_tiled_copy_B make_tiled_copy_C retile_D
states shapes and thread layouts of an instruction: traits thread value layout instruction descriptor
 mapping lanes
= MMA_Traits Copy_Traits
copies from global to shared memory without waiting (Ampere): cp.async asynchronous copy bypass registers
 commit group
 16 bytes ldgsts
= SM80_CP_ASYNC_CACHEGLOBAL SM80_CP_ASYNC_CACHEALWAYS cp_async_fence cp_async_wait cp_async
copies asynchronously and writes zeros where masked: zfill zero fill out of bounds predicate ignore source
= SM80_CP_ASYNC_CACHEGLOBAL_ZFILL cp_async_zfill SM80_CP_ASYNC_CACHEALWAYS_ZFILL
loads 8x8 matrices from shared memory into registers: ldmatrix ldsm warp collective fragment operand
 transposed
= SM75_U32x4_LDSM_N SM75_U16x8_LDSM_T ldsm
stores 8x8 matrices from registers into shared memory: stmatrix stsm warp collective epilogue transposed
= SM90_U32x4_STSM_N SM90_U16x8_STSM_T
exchanges registers between lanes: shuffle transpose lanes warp exchange movmatrix
= SM50_Shuffle_U32_2x2Trans_XOR1 SM75_U32x1_MOVM_T
builds a tensor map and its copy on the host: tensormap descriptor cuTensorMapEncode create tma host box
 tile
= make_tma_copy make_tma_atom make_tma_copy_A_sm90 SM90_TMA_LOAD
loads a box with the tensor memory accelerator: bulk tensor asynchronous tma load transaction bytes
 multi-dimensional
= SM90_TMA_LOAD SM90_TMA_LOAD_2D tma_partition
sends one TMA load to several blocks of a cluster: multicast broadcast cluster mask share tile
= SM90_TMA_LOAD_MULTICAST create_tma_multicast_mask
stores a box with the tensor memory accelerator: tma store bulk write commit arrive wait drain
= SM90_TMA_STORE tma_store_arrive tma_store_wait tma_store_fence
adds into global memory while storing with TMA: reduce add atomic bulk accumulate
= SM90_TMA_REDUCE_ADD
copies a contiguous run of bytes in bulk: cp.async.bulk one-dimensional linear no tensormap
= SM90_BULK_COPY_G2S SM90_BULK_COPY_S2G SM90_BULK_COPY_AUTO
loads convolution windows with TMA: im2col image patches filter offsets
= SM90_TMA_LOAD_IM2COL make_im2col_tma_copy SM100_TMA_2SM_LOAD_IM2COL
changes a tensor map while the kernel runs: update modify replace address dims strides tensormap device
 grouped fence proxy
= tma_descriptor_replace_addr_in_shared_mem tma_descriptor_replace_dims_strides_in_shared_mem
 tma_descriptor_cp_fence_release tma_descriptor_fence_acquire
loads with a pair of SMs: two cta group 2sm tma leader peer
= SM100_TMA_2SM_LOAD SM100_TMA_2SM_LOAD_MULTICAST
chooses one lane to act: elect leader single thread lane predicate issue once
= elect_one_sync
synchronises or identifies the blocks of a cluster: cluster barrier arrive wait rank position distributed
 block id
= cluster_sync cluster_arrive cluster_wait block_rank_in_cluster cluster_arrive_relaxed
reads or writes the shared memory of a neighbouring block: distributed shared memory dsmem remote peer mapa
= set_block_rank store_shared_remote
waits at a barrier object in shared memory: mbarrier phase parity arrive expect transaction try wait spin
= ClusterBarrier ClusterTransactionBarrier initialize_barrier wait_barrier set_barrier_transaction_bytes
synchronises some warps of a block: named barrier bar.sync id subset thread count
= NamedBarrier
makes writes visible to asynchronous units: fence proxy async view shared generic ordering
= fence_view_async_shared tma_store_fence fence_barrier_init
starts the next kernel before this one ends: programmatic dependent launch pdl griddepcontrol overlap tail
 prologue
= launch_dependent_grids wait_on_dependent_grids
gives registers from one warpgroup to another: setmaxnreg register budget increase decrease dealloc alloc
= warpgroup_reg_alloc warpgroup_reg_dealloc
multiplies with a warpgroup (Hopper): wgmma asynchronous 64xN shared memory operands descriptor gmma
= MMA_64x128x16_F32F16F16_SS warpgroup_arrive warpgroup_commit_batch warpgroup_wait ss_op_selector
keeps the compiler from moving accumulators across wgmma: fence operand registers ordering
= warpgroup_fence_operand
encodes where a matrix lies in shared memory for the tensor core: matrix descriptor leading byte offset
 stride swizzle mode
 canonical layout k-major mn-major
= GmmaDescriptor make_gmma_desc make_umma_desc SmemDescriptor
chooses the shared memory layout that the tensor core wants: smem layout atom swizzle 128B 64B 32B k-major
 mn-major selector
= ss_smem_selector Layout_K_SW128_Atom rs_smem_selector sm100_smem_selector
multiplies into tensor memory (Blackwell): tcgen05 umma accumulator tmem single thread issue
= SM100_MMA_F16BF16_SS SM100_MMA_F8F6F4_SS SM100_MMA_F16BF16_2x1SM_SS
multiplies narrow floats with scale factors in hardware: mxf4 nvf4 mxf8f6f4 block scaled tcgen05
= SM100_MMA_MXF4_SS SM100_MMA_MXF8F6F4_SS Sm1xxBlockScaledConfig
reserves and frees tensor memory: tmem alloc columns relinquish permit release
= Allocator1Sm Allocator2Sm
moves accumulators between tensor memory and registers: tcgen05.ld tcgen05.st tmem load store epilogue read
= SM100_TMEM_LOAD_32dp32b1x make_tmem_copy SM100_TMEM_STORE_32dp32b1x
multiplies with warp-level tensor core instructions: mma.sync m16n8k16 fragment half warp hmma imma
= SM80_16x8x16_F32F16F16F32_TN SM75_16x8x8_F32F16F16F32_TN SM70_8x8x4_F32F16F16F32_TN
 SM89_16x8x32_F32E4M3E4M3F32_TN
multiplies binary matrices: one-bit xor popc and popc b1 binarized bmma
= SM80_16x8x256_S32U1U1S32_TN_XORPOPC SM80_16x8x256_S32U1U1S32_TN_ANDPOPC
multiplies double precision fragments: fp64 dmma double tensor core
= SM80_8x8x4_F64F64F64F64_TN MMA_16x8x4_F64F64F64F64_TN
dots four bytes at a time: dp4a int8 packed dot product simt
= SM61_DP4A SM61_DP2A
passes tiles from a producer to consumers: pipeline stages ring buffer full empty barrier acquire commit
 release state phase
= PipelineTmaAsync PipelineAsync PipelineState PipelineTransactionAsync
limits how many TMA stores are in flight: store pipeline outstanding epilogue buffers reuse
= PipelineTmaStore
lets groups of warps take turns in order: ordered sequence alternate math epilogue order barrier two
 consumers
= OrderedSequenceBarrier
passes tiles to and from tcgen05: umma pipeline accumulator tensor memory full empty
= PipelineTmaUmmaAsync PipelineUmmaAsync PipelineUmmaConsumerAsync
asks the hardware for the next tile: cluster launch control clc try cancel dynamic persistent work stealing
 query
= PipelineCLCFetchAsync PersistentTileSchedulerSm100
walks over output tiles in a persistent kernel: static scheduler tile loop next work linear index swizzle
 raster
= StaticPersistentTileScheduler PersistentTileSchedulerSm90 PersistentTileSchedulerSm90Params
walks over the tiles of several problems: group scheduler problem visitor prefetch problem shapes
= PersistentTileSchedulerSm90Group PersistentTileSchedulerSm100Group
splits tiles along K so that all SMs finish together: stream-k scheduler fixup reduction partial tile
 decomposition data parallel
= PersistentTileSchedulerSm90StreamK PersistentTileSchedulerSm100StreamK
 PersistentTileSchedulerSm90StreamKParams
gives two consumer warpgroups a tile each in turn: ping-pong alternate overlap epilogue with mainloop math
= sm90_gemm_tma_warpspecialized_pingpong.hpp KernelTmaWarpSpecializedPingpong
 sm90_gemm_array_tma_warpspecialized_pingpong.hpp
lets consumer warpgroups work on one larger tile: cooperative share halves of a tile
= sm90_gemm_tma_warpspecialized_cooperative.hpp KernelTmaWarpSpecializedCooperative
 sm90_gemm_array_tma_warpspecialized_cooperative.hpp
runs the warp-specialised kernel of Blackwell: load mma epilogue scheduler warps roles sm100 kernel layer
= sm100_gemm_tma_warpspecialized.hpp sm100_gemm_array_tma_warpspecialized.hpp
runs the mainloop on Hopper with both operands in shared memory: collective mainloop ss gmma tma load mma k
 tiles
= sm90_mma_tma_gmma_ss_warpspecialized.hpp MainloopSm90TmaGmmaWarpSpecialized
runs the mainloop on Hopper with A in registers: rs gmma register operand tf32 transposed convert
= sm90_mma_tma_gmma_rs_warpspecialized.hpp
converts the narrow operand inside the mainloop on Hopper: mixed input upcast dequantize register scale
 zero int4 int8 lookup
= sm90_mma_tma_gmma_rs_warpspecialized_mixed_input.hpp MixedInputUtils LayoutAwareConvert
adds fp8 partial sums in full precision: promotion interval accumulate fp8 two-level accumulators precision
 loss
= GmmaFP8Accumulation sm90_mma_tma_gmma_ss_warpspecialized_fp8.hpp
applies scale factors per block inside the mainloop: blockwise groupwise scaling deepseek fp8 scale a scale
 b
= sm90_mma_tma_gmma_ss_warpspecialized_fp8_blockwise_scaling.hpp
 sm100_mma_warpspecialized_blockwise_scaling.hpp
 Sm1xxBlockwiseScaleConfig Sm90BlockwiseScaleConfig
runs the mainloop on Ampere with cp.async: multistage unpredicated stages sm80 collective
= sm80_mma_multistage.hpp MainloopSm80CpAsync
runs the mainloop on Blackwell: tcgen05 umma collective tma tensor memory accumulators
= sm100_mma_warpspecialized.hpp sm100_blockscaled_mma_warpspecialized.hpp
runs the mainloop of a convolution: implicit gemm collective im2col tma activation filter
= sm90_implicit_gemm_gmma_ss_warpspecialized.hpp sm100_implicit_gemm_umma_warpspecialized.hpp CollectiveConv
picks mainloop types from element types, layouts and tile: builder automatically deduce schedule stage count
= CollectiveBuilder KernelScheduleAuto sm90_gmma_builder.inl sm100_umma_builder.inl
decides how many stages fit: stage count shared memory budget carveout auto capacity
= StageCountAuto StageCountAutoCarveout compute_stage_count_or_override
names kernel schedules and mainloop policies: dispatch policy tags schedule kernel type list
= KernelTmaWarpSpecialized MainloopSm90TmaGmmaWarpSpecialized KernelTmaWarpSpecializedPingpong
 dispatch_policy.hpp
joins mainloop, epilogue and scheduler to a kernel: kernel layer compose universal problem shape
= GemmUniversal gemm_universal.hpp
launches a kernel from the host: device adapter handle arguments initialise workspace run can implement
= GemmUniversalAdapter ConvUniversalAdapter
describes problem shapes of groups on the device: group problem shape array host device sizes
= GroupProblemShape ArrayProblemShape
tells a kernel about the device: sm count number of multiprocessors device id occupancy max active clusters
= KernelHardwareInfo query_device_max_active_clusters query_device_multiprocessor_count
launches with a cluster size: cluster launch cudaLaunchKernelEx attribute dims
= ClusterLauncher launch_kernel_on_cluster ClusterLaunchParams
compresses a matrix for the sparse tensor cores: compressor 2:4 metadata pruned nonzero pack
= StructuredSparseCompressor StructuredSparseCompressorUtility SM90StructuredSparseCompressor
lays out scale factors for block-scaled products: scale factor layout sf atom tile_atom_to_shape_SFA vector
 size 16 32
= Sm1xxBlockScaledConfig Sm1xxBlockScaledOutputConfig
stores output tiles with TMA from shared memory: epilogue collective subtile reuse smem c load d store
= sm90_epilogue_tma_warpspecialized.hpp sm100_epilogue_tma_warpspecialized.hpp CollectiveEpilogue
stores output straight from registers: no smem epilogue direct default simple store
= DefaultEpilogue sm100_epilogue_nosmem.hpp DefaultEpilogueArray
builds an epilogue out of nodes: visitor tree evt fusion custom elementwise compose graph callbacks
= Sm90EVT Sm90TreeVisitor Sm90Compute Sm90TopologicalVisitor Sm90VisitorImpl
adds a vector per row or per column in the epilogue: bias broadcast row column vector node
= Sm90RowBroadcast Sm90ColBroadcast VisitorRowBroadcast VisitorColBroadcast
reads the accumulator, C or another matrix in the epilogue: source fetch aux load residual node
= Sm90AccFetch Sm90SrcFetch Sm90AuxLoad VisitorAuxLoad Sm90ScalarBroadcast
writes a second output in the epilogue: auxiliary store keep pre-activation aux tensor
= Sm90AuxStore VisitorAuxStore
reduces the output in the epilogue: row sum column sum scalar max amax reduction node dbias
= Sm90RowReduction Sm90ColReduction Sm90ScalarReduction VisitorRowReduction VisitorColReduction
states which fusion the epilogue shall do: fusion operation linear combination bias activation aux amax
 scale request
= FusionOperation LinearCombination LinCombPerRowBiasEltAct LinCombPerColBiasEltActAux
 ScaledLinCombPerRowBiasEltActAmaxAux
quantises the output to a block-scaled format: generate scale factors output fp4 block scale epilogue
= LinCombBlockScaleFactor Sm100BlockScaleFactorRowStore LinCombEltActBlockScaleFactor
"""
