// Channels of all images as rows of places (kernels/conv_tiles.cu says what those are): to[C][numbers] from x[N,H,W,C],
// zeros for padding, rounded to TF32. Of each eight places, those of even number come first: so kernels/conv_weights.cu
// reads them.
//   H, W, PITCH, IMAGE; numbers is a multiple of 32

extern "C" __global__ void __launch_bounds__(256)
    conv_line(const float* x, float* to, int images, int channels, i64 numbers) {
  begin_kernel();
  __shared__ float tile[32][33];  // [place][channel]
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  const i64 first = (i64)blockIdx.x * 32;
  const int first_channel = (int)blockIdx.y * 32;
  for (int p = warp; p < 32; p += 8) {
    const i64 place = first + p, line = place / PITCH, image = line / IMAGE;
    const int column = (int)(place % PITCH), row = (int)(line % IMAGE);
    const bool inside = image < images && row < H && column < W;
    tile[p][lane] = inside ? x[((image * H + row) * W + column) * channels + first_channel + lane] : 0.0f;
  }
  __syncthreads();
  const int place = lane / 8 * 8 + (lane % 8 < 4 ? lane % 8 * 2 : lane % 8 * 2 - 7);
  for (int c = warp; c < 32; c += 8)
    to[(first_channel + c) * numbers + first + lane] = __uint_as_float(rounded(tile[place][c]) & 0xffffe000u);
}
