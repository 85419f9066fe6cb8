// Drawing and sounding for data sets that are made up.
#pragma once

#include <array>
#include <string>

#include "varve/data.h"

namespace varve::data {

void make_shapes(const std::string& folder, const MakeOptions& options);
void make_photos(const std::string& folder, const MakeOptions& options);
void make_sounds(const std::string& folder, const MakeOptions& options);
void make_speech(const std::string& folder, const MakeOptions& options);  // by espeak-ng
void make_reviews(const std::string& folder, const MakeOptions& options);

}  // namespace varve::data
