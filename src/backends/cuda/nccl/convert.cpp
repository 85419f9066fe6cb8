#include "backends/cuda/nccl/convert.h"

#include "backends/cuda/device/arguments.h"
#include "backends/cuda/device/sizes.h"
#include "backends/cuda/device/stored_type.h"
#include "base/text.h"

namespace varve::cuda {
namespace {

constexpr std::int64_t kPerBlock = 256 * 4;
constexpr std::size_t kMostParts = kMostWords / 4;  // three words each, and half of one for where it ends

std::int64_t blocks_of(std::int64_t count) { return ceil_div(count, kPerBlock); }

bool is_double(DType dtype) { return dtype == f64 || dtype == i64; }

std::string constants(DType from, DType to, std::size_t parts, Keys keys, bool back) {
  const bool wide = is_double(from) || is_double(to), whole = !is_floating(from) && !is_floating(to);
  const char *largest = wide ? "0x7fffffffffffffffLL" : "0x7fffffff",
             *smallest = wide ? "(-0x7fffffffffffffffLL - 1)" : "(-0x7fffffff - 1)";
  return defines({{"FROM", stored_type(from)},
                  {"TO", stored_type(to)},
                  {"WIDE", whole  ? "i64"
                           : wide ? "double"
                                  : "float"},
                  {"KEYS", keys == Keys::none ? "0"
                           : back             ? "2"
                                              : "1"},
                  {"KEY", wide ? "i64" : "int"},
                  {"VALUE", wide ? "double" : "float"},
                  {"LARGEST", largest},
                  {"NAN_KEY", keys == Keys::for_max ? largest : smallest},
                  {"PARTS", cat(parts)}});
}

}  // namespace

Conversion::Conversion(DType from, DType to, std::vector<std::int64_t> counts, Keys keys, bool back)
    : counts_(std::move(counts)) {
  for (std::size_t part = 0; part < counts_.size(); ++part) {
    if (counts_[part] == 0) continue;
    if (batches_.empty() || batches_.back().parts.size() == kMostParts) batches_.emplace_back();
    batches_.back().parts.push_back(part);
    batches_.back().blocks += blocks_of(counts_[part]);
  }
  for (Batch& batch : batches_)
    batch.function =
        Function("convert_parts", {"nccl/convert.cu", constants(from, to, batch.parts.size(), keys, back)});
}

void Conversion::run(const std::vector<Place>& places) const {
  for (const Batch& batch : batches_) {
    Words words;
    std::uint64_t end = 0, low = 0;
    for (std::size_t i = 0; i < batch.parts.size(); ++i) {
      end += static_cast<std::uint64_t>(blocks_of(counts_[batch.parts[i]]));
      if (i % 2 == 1)
        words.add_halves(low, end);
      else if (i + 1 == batch.parts.size())
        words.add_halves(end, end);
      low = end;
    }
    for (const std::size_t part : batch.parts) {
      words.add(places[part].from);
      words.add(static_cast<const void*>(places[part].to));
      words.add(counts_[part]);
    }
    words.start(batch.function, {.grid = batch.blocks, .block = 256});
  }
}

}  // namespace varve::cuda
