// Single numbers as NumPy writes them.
#pragma once

#include <string>

#include "varve/dtype.h"

namespace varve {

// "1.5", "1." and "1.5e-07", "1.e+10": the shortest digits that tell this value from its neighbours of the same type,
// but at most `most` after the point.
std::string positional(double value, DType dtype, int most);
std::string scientific(double value, DType dtype, int most);

// Just so many digits after the point, and at least so many in the exponent: "1.50e-07".
std::string scientific_fixed(double value, int digits, int exponent_digits);

// From here on numbers of the type are written with exponents: digits would promise more than it holds.
double largest_plain(DType dtype);

// A number on its own: "1.0", "1e-05", "nan".
std::string scalar_text(double value, DType dtype);

}  // namespace varve
