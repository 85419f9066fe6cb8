// Several arrays in one file, as a data set.
#pragma once

#include <string>

#include "varve/data.h"

namespace varve::data {

Splits npz(
    const std::string& path);  // x_train, y_train; x_validation, y_validation, x_test, y_test where there are any

}  // namespace varve::data
