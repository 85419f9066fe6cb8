// Planned groups as CUDA C++: a structure for each kind of group, and the kernel that hands blocks to them.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/device/arguments.h"
#include "backends/cuda/groups/groups_plan.h"

namespace varve::cuda {

// Why the formula cannot be computed in this type, or "".
std::string formula_refusal(const expr::Code& code, DType compute);

// The inside of the group's structure. Sizes and strides are arguments: equal texts, one compilation.
std::string group_text(const GroupPlan& plan);
// Its parameters, in the order of the text, after the pointers of the operands, and of scratch memory and counters
// where the walk reduces.
void add_group_words(const GroupPlan& plan, Words& words);

// One kernel, called "groups", over `counts[k]` groups of kind `texts[k]`. Its argument: where the blocks of each group
// end, as 32-bit numbers padded to whole words; then the groups' parameters.
KernelText groups_kernel(const std::vector<std::string>& texts, const std::vector<int>& counts,
                         std::size_t shared_bytes);
std::size_t shared_bytes(const GroupPlan& plan);

}  // namespace varve::cuda
