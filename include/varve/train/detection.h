// Finding things in pictures: a loss, a score and the boxes of a network that answers for each cell of a grid.
//
// The network's output is [N, rows, columns, 5 + classes]. A cell answers for the box whose middle it holds: whether
// there is one (a logit), where in the cell its middle is and how wide and high it is in shares of the picture (through
// a sigmoid), and of which class it is (logits). Targets are f32 [N, boxes, 5], rows of data::Boxes.
#pragma once

#include <cstdint>
#include <vector>

#include "varve/tensor.h"
#include "varve/train.h"

namespace varve::train {

// Cross-entropy of whether, of which class, and how far off: 5 · (|Δx| + |Δy| + |Δw| + |Δh|) + 2 · (1 - IoU), by box.
// Of two boxes in one cell the first counts.
extern const Loss detection;

struct FoundBox {
  std::int64_t kind = 0;  // the class
  double score = 0;
  double left = 0, top = 0, right = 0, bottom = 0;  // in shares of the picture
};
struct FindBoxesOptions {
  double score = 0.3;    // what is less sure is left out
  double overlap = 0.5;  // of two of a class that overlap more (IoU), the surer one stays
  std::int64_t most = 100;
};
// The boxes of each picture, the surest first.
std::vector<std::vector<FoundBox>> find_boxes(const Tensor& output, const FindBoxesOptions& options = {});
double box_overlap(const FoundBox& a, const FoundBox& b);  // intersection over union

// The mean over the classes of the average precision at an overlap of a half, as PASCAL VOC asks since 2010. A cell is
// taken when none of its eight neighbours is surer; scores are counted in 100 bins.
Metric map50();

}  // namespace varve::train
