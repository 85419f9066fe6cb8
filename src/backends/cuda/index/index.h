// Reading and adding at positions that are themselves tensors.
#pragma once

#include "backends/cuda/device/launch.h"

namespace varve::cuda {

// What a kernel says of an index that it must not use, along this axis of so many elements.
std::string out_of_range(const std::string& op, std::int64_t size, std::int64_t axis);
// Its number for note(), or none without a GPU.
int number_of(const std::string& text);

inline const char* index_type(DType dtype) { return dtype == i32 ? "int" : "i64"; }

backend::Prepared gather(const Task& task);  // embedding, too

void add_scatter_claims(ClaimMap& map);  // scatter_add, put_along_axis_add
void add_writing_claims(ClaimMap& map);  // scatter, put_along_axis
void add_table_claims(ClaimMap& map);    // embedding and its gradient

}  // namespace varve::cuda
