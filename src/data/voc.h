// PASCAL VOC's layout: which pictures a set has, and the boxes of an annotation.
#pragma once

#include <string>
#include <vector>

#include "varve/data.h"

namespace varve::data {

// Boxes of one picture, in its pixels: from left to before right.
struct VocBox {
  std::string name;
  double left = 0, top = 0, right = 0, bottom = 0;
  bool difficult = false;
  std::int64_t line = 0;
};
struct VocAnnotation {
  std::vector<VocBox> boxes;
};
VocAnnotation parse_annotation(const std::string& text, const std::string& source);

const std::vector<std::string>& voc_classes();  // the twenty, without the background

}  // namespace varve::data
