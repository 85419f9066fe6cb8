// The rows of src/ops/reduce.cpp, in two files.
#pragma once

#include "ops/row.h"

namespace varve::test {

std::vector<Row> axis_rows();  // cumsum, sort, top_k
void integers(Row& row);       // small whole numbers of every integer type, no gradient

}  // namespace varve::test
