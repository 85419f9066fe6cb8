#include "base/levers.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "base/text.h"

namespace varve {
namespace {

std::vector<std::string> lever_names() {
  std::vector<std::string> all;
  for (const Lever& l : levers()) all.push_back(l.name);
  return all;
}

bool is_lever(std::string_view name) {
  return std::any_of(levers().begin(), levers().end(), [&](const Lever& l) { return l.name == name; });
}

void check_users(std::string_view name) {
  if (is_lever(name)) return;
  throw Error(cat("VARVE_WITHOUT: unknown lever '", name, "'.", did_you_mean(name, lever_names()),
                  " Known: ", quoted_list(lever_names()), "."));
}

}  // namespace

const std::vector<Lever>& levers() {
  static const std::vector<Lever> all = {
      {"update-in-gemm", "the update of a weight inside the product that makes its gradient"},
      {"lone-rank", "collectives left out in a world of one rank, where they change nothing"},
      {.name = "launches",
       .doc = "small generated groups that begin or end a program in one launch on a GPU",
       .gpu_only = true},
      {.name = "recompute",
       .doc = "activations recomputed in the backward pass on a GPU instead of kept until then",
       .gpu_only = true},
      {.name = "cublas", .doc = "products by cuBLASLt on a GPU instead of plain kernels", .gpu_only = true},
      {.name = "cudnn", .doc = "convolutions by cuDNN on a GPU instead of plain kernels", .gpu_only = true},
      {.name = "tuning",
       .doc = "the fastest of the algorithms that a GPU's libraries propose instead of the first",
       .gpu_only = true},
      {.name = "streams",
       .doc = "plain kernels for products of few rows with large weights, and convolutions (compute capability "
              "9.0; images of few channels or pixels: 8.0)",
       .gpu_only = true},
      {.name = "overlap",
       .doc = "kernels of a recorded step begin before those they follow have ended (compute capability 9.0)",
       .gpu_only = true},
      {.name = "conditional-nodes",
       .doc = "cond and while_loop decided on a GPU, inside the recorded step, instead of by the processor between two",
       .gpu_only = true},
      {.name = "same-bits",
       .doc = "sums of a GPU's libraries in a fixed order, where one that varies may be faster",
       .gpu_only = true},
      {"joining", "equal calls of a graph that was recorded example by example joined into one"},
      {"winograd", "convolutions by Winograd's minimal filtering instead of directly"},
      {"fft", "convolutions with large kernels by Fourier transforms instead of directly"},
      {"recurrent", "recurrent layers as a few big kernels instead of a loop over the steps"},
      {"class-loss", "a classifier's last layer with its loss and their gradients, block by block"},
      {"tables", "products of rows taken from a table computed for the table, where it is the smaller one"},
      {"bf16", "bf16 products where the processor has them, instead of computing what is bf16 in f32"},
      {"lapack", "eigenvalues and singular values by LAPACK instead of plain rotations"},
      {"layouts", "parameters kept in the layout that their kernels like best"},
      {"groups", "elementwise operators and reductions merged into generated groups"}};
  return all;
}

bool lever(std::string_view name) {
  if (!is_lever(name))
    throw std::logic_error(
        cat("lever(\"", name, "\"): no such lever. Declared in base/levers.cpp: ", quoted_list(lever_names()), "."));
  const char* text = std::getenv("VARVE_WITHOUT");
  std::string_view rest = text ? text : "";
  bool on = true;
  while (!rest.empty()) {
    const std::size_t end = rest.find(',');
    const std::string_view left_out = rest.substr(0, end);
    if (!left_out.empty()) check_users(left_out);
    on = on && left_out != name;
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return on;
}

}  // namespace varve
