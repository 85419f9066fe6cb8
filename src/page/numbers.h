// Numbers as text, the same in every locale.
#pragma once

#include <string>

namespace varve::page {

std::string general(double value, int digits);  // as %g: so many significant digits, exponents where shorter
std::string fixed(double value, int decimals);  // as %f

}  // namespace varve::page
