// Where values lie: their layout over the buffer that the value behind their views has.
#pragma once

#include <optional>

#include "compiler/draft.h"

namespace varve::compiler {

// Nothing where some view in between needs a copy.
std::optional<Layout> layout_of(const Draft& draft, const ir::Value& value);
const OpRecord& copy_op();

}  // namespace varve::compiler
