// What kernels that update weights by tiles share: their operands, products of few terms, and the formula.
//   TENSORS, SCALARS, RESULTS and update(g, x, s, y) stand before: y = formula of the gradient, of the tensors'
//   elements x, and of the scalars s. RESULTS ≤ TENSORS

// As matmul_stream.cpp fills it.
struct StreamOperands {
  TensorMap tensors[4], results[4], factor;
  const float* scalars[10];
};

// d += a·b of 16 × 8 and 8 × 8 numbers in TF32, which holds every bf16.
__device__ __forceinline__ void multiply_add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#ifdef VARVE_EMULATED
  emu_mma_m16n8k8_tf32(d, a, b, d);
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Two neighbours, in tiles of so many bytes: a result lies where the tensor of the same number lay.
__device__ __forceinline__ void update_two(unsigned char* at, int tile, float g0, float g1, const float* s) {
  float2 x[TENSORS];
#pragma unroll
  for (int i = 0; i < TENSORS; ++i) x[i] = *(const float2*)(at + i * tile);
  float first[TENSORS], second[TENSORS], y0[RESULTS], y1[RESULTS];
#pragma unroll
  for (int i = 0; i < TENSORS; ++i) {
    first[i] = x[i].x;
    second[i] = x[i].y;
  }
  update(g0, first, s, y0);
  update(g1, second, s, y1);
#pragma unroll
  for (int i = 0; i < RESULTS; ++i) *(float2*)(at + i * tile) = make_float2(y0[i], y1[i]);
}
