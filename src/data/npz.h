// Several arrays in one file, as a data set.
#pragma once

#include <string>

#include "varve/data.h"

namespace varve::data {

// x_train, y_train; x_validation, y_validation, x_test, y_test where there are any. Several inputs or targets are
// arrays x_train.NAME, y_train.NAME.
Splits npz(const std::string& path);

}  // namespace varve::data
