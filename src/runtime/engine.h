// The engine's insides that the rest of the runtime and tests use.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "compiler/plan.h"
#include "ir/node.h"

namespace varve::runtime {

std::size_t cached_programs();  // of lazy code
void clear_cache();

bool is_tiny(const std::vector<ir::NodePtr>& nodes);  // one thread has computed them before others are awake

bool explains();  // VARVE_EXPLAIN=1
void print_explanation(const std::string& name, const compiler::Plan& plan, const std::string& captured = "");

void fill_scalar(const ir::Node& fill, void* out);  // the literal's one element
std::shared_ptr<ir::Array> scalar_array(const ir::Node& fill);

}  // namespace varve::runtime
