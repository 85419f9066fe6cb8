// What a network sees where in a picture: masks and boxes.
#pragma once

#include <string>
#include <vector>

#include "varve/train.h"

namespace varve::cli {

struct PlaceOptions {
  std::vector<std::string> files;  // pictures, and folders of them
  std::string out = ".";           // where masks are written
  double score = 0.3;              // of boxes, at least
  bool json = false, csv = false;
};

// Whether the network answers with a class for each pixel, or with boxes.
bool answers_places(const train::TrainedModel& run);
// Masks are written as NAME.mask.png, of the picture's own size; boxes are in its pixels.
int predict_places(const train::TrainedModel& run, const PlaceOptions& options);

}  // namespace varve::cli
