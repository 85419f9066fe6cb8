// What the files compiled per instruction set offer to kernels.cpp, which puts them together.
#pragma once

#include "backends/cpu/tile/kernels.h"

namespace varve::cpu {

enum class Move : std::uint8_t { splat, nontemporal };

KernelFn arith_kernel_f32(expr::Prim prim);
KernelFn arith_kernel_f64(expr::Prim prim);
KernelFn move_kernel_f32(Move move);
KernelFn move_kernel_f64(Move move);
KernelFn math_kernel_f32(expr::Prim prim);
KernelFn math_kernel_f64(expr::Prim prim);
KernelFn sigmoid_kernel_f32();
KernelFn sigmoid_kernel_f64();
KernelFn half_load_kernel(DType from);  // f16 or bf16 to f32
KernelFn half_store_kernel(DType to);
SegmentFn segment_kernel_f32(Reduce op);
SegmentFn segment_kernel_f64(Reduce op);

// Plain loops: integers have no functions worth more.
KernelFn i64_kernel(expr::Prim prim, Form form);
KernelFn i64_splat_kernel();

}  // namespace varve::cpu
