// What transforms of all kinds are made of.
#pragma once

#include "varve/fft.h"

namespace varve::fft {

Complex dft(const Complex& x, bool inverse);  // along the last axis, without a factor

}  // namespace varve::fft
