// The parts of the arithmetic table, by file.
#pragma once

#include <limits>
#include <vector>

#include "ops/row.h"

namespace varve::test {

std::vector<Row> unary_rows();
std::vector<Row> cast_rows();
std::vector<Row> create_rows();

// Small numbers in every integer type; no gradient.
void whole_numbers(Row& row);
// Not even away from the kink is there a second derivative to look at.
void kinked(Row& row);

}  // namespace varve::test
