// What is alive for a while on one thread: calls, dry runs, watches, a precision, and the images behind flat tensors.
#include <algorithm>

#include "nn/state.h"
#include "varve/distributed.h"
#include "varve/nn/text.h"
#include "varve/ops.h"

namespace varve::nn {
namespace {

thread_local Frame* current_frame = nullptr;
thread_local const DryRun* current_dry_run = nullptr;
thread_local DType current_precision = f32;
thread_local bool currently_wide = false;
thread_local const SyncBatchNorm* current_sync = nullptr;
thread_local const Shard* current_shard = nullptr;
thread_local AddedLosses* current_losses = nullptr;
thread_local const OwnNames* current_names = nullptr;

struct Flattened {
  std::weak_ptr<ir::Node> node;
  Shape image;
};
thread_local std::vector<Flattened> flattened;  // those that died are dropped when one is added

struct Gathered {
  std::weak_ptr<ir::Node> whole;
  Tensor own;
};
thread_local std::vector<Gathered> gathered;  // of the outermost call in progress

}  // namespace

Frame::Frame(const Module& module)
    : module_(module),
      path_(current_frame ? join_path(current_frame->path_, module.state()->name) : module.state()->name),
      depth_(current_frame ? current_frame->depth_ + 1 : 0),
      scope_(module.state()->name, module.state()->rank),
      outer_(std::exchange(current_frame, this)) {}
Frame::~Frame() {
  current_frame = outer_;
  if (!outer_) gathered.clear();
}
const Frame* Frame::current() { return current_frame; }

AddedLosses::AddedLosses() : outer_(std::exchange(current_losses, this)) {}
AddedLosses::~AddedLosses() { current_losses = outer_; }
Tensor AddedLosses::total() const { return total_.defined() ? total_ : zeros({}); }

void add_loss(const Tensor& loss) {
  if (loss.rank() != 0 || !is_floating(loss.dtype()))
    throw Error("add_loss: expected a floating-point scalar, got " + loss.type().str() + ". Take its sum or mean.");
  if (!current_losses) return;
  Tensor& total = current_losses->total_;
  total = total.defined() ? total + loss.to(total.dtype()) : loss;
}

// A call that gives masks knows nothing of what is around it, and neither do the calls inside it.
std::vector<const KnownMasks*> Frame::tables() const {
  std::vector<const KnownMasks*> all;
  for (const Frame* frame = this; frame && !frame->gives_masks_; frame = frame->outer_)
    if (!frame->masks_.known.empty()) all.push_back(&frame->masks_);
  return all;
}

bool Frame::knows_masks() { return current_frame && !current_frame->tables().empty(); }

void Frame::know(const Tensor& value, const Mask& mask) {
  if (current_frame && !current_frame->gives_masks_) current_frame->masks_.add(value, mask);
}

void Frame::give_masks() { current_frame->gives_masks_ = true; }

Mask Frame::mask_of(const Tensor& value) {
  if (!current_frame || !value.defined()) return {};
  const std::vector<const KnownMasks*> tables = current_frame->tables();
  if (tables.empty()) return {};
  try {
    return mask_behind(value, tables);
  } catch (const NoWay& why) {
    const std::string kind = current_frame->module_.kind();
    throw Error((current_frame->path_.empty() ? kind : kind + " \"" + current_frame->path_ + "\"") +
                ": some of its steps are padding, and its forward() does not say what becomes of them: " + why.what() +
                ".\n  Override masking() to answer Masking::uses, and masked_forward(x, mode, mask) to see to it (in "
                "Python: forward(x, train, mask)), or drop the mask with an unmask layer.");
  }
}

DryRun::DryRun(bool building, std::int64_t seed)
    : building_(building), seed_(seed), outer_(std::exchange(current_dry_run, this)) {}
DryRun::~DryRun() { current_dry_run = outer_; }
bool DryRun::active() { return current_dry_run != nullptr; }
bool DryRun::building() { return current_dry_run && current_dry_run->building_; }
std::int64_t DryRun::seed() { return current_dry_run ? current_dry_run->seed_ : 0; }

Precision::Precision(DType dtype) : saved_(current_precision) {
  if (!is_floating(dtype))
    throw Error(std::string("precision: expected f32, bf16, f16 or f64, got ") + name(dtype) + ".");
  current_precision = dtype;
}
Precision::~Precision() { current_precision = saved_; }
DType Precision::current() { return current_precision; }

SyncBatchNorm::SyncBatchNorm(Tensor counted)
    : counted_(counted.defined() ? std::move(counted) : ones({})), outer_(std::exchange(current_sync, this)) {}
SyncBatchNorm::~SyncBatchNorm() { current_sync = outer_; }
const SyncBatchNorm* SyncBatchNorm::current() { return current_sync; }

Shard::Shard(Tensor number, std::int64_t count)
    : number_(std::move(number)), count_(count), outer_(std::exchange(current_shard, this)) {}
Shard::~Shard() { current_shard = outer_; }
const Shard* Shard::current() { return current_shard; }

Tensor compute_type(const Tensor& x) {
  const bool wide = currently_wide && current_precision == f32;
  return is_floating(x.dtype()) ? x.to(wide ? f64 : current_precision) : x;
}

OwnNames::OwnNames(std::map<std::string, Initializer> initializers, std::map<std::string, Activation> activations)
    : initializers_(std::move(initializers)),
      activations_(std::move(activations)),
      outer_(std::exchange(current_names, this)) {}
OwnNames::~OwnNames() { current_names = outer_; }
const Initializer* OwnNames::initializer(const std::string& name) {
  for (const OwnNames* names = current_names; names; names = names->outer_)
    if (const auto found = names->initializers_.find(name); found != names->initializers_.end()) return &found->second;
  return nullptr;
}
const Activation* OwnNames::activation(const std::string& name) {
  for (const OwnNames* names = current_names; names; names = names->outer_)
    if (const auto found = names->activations_.find(name); found != names->activations_.end()) return &found->second;
  return nullptr;
}

Wide::Wide(bool wide) : saved_(currently_wide) { currently_wide = currently_wide || wide; }
Wide::~Wide() { currently_wide = saved_; }
bool Wide::current() { return currently_wide; }

void note_flattened(const Tensor& flat, const Shape& image) {
  std::erase_if(flattened, [](const Flattened& known) { return known.node.expired(); });
  flattened.push_back({flat.node(), image});
}

Shape flattened_image(const Tensor& x) {
  for (const Flattened& known : flattened)
    if (known.node.lock() == x.node()) return known.image;
  return {};
}

void carry_flattened(const Tensor& from, const Tensor& to) {
  if (from.node() == to.node() || from.shape() != to.shape()) return;
  if (const Shape image = flattened_image(from); image.rank()) note_flattened(to, image);
}

Tensor gather_columns(const Tensor& own) {
  const Tensor whole = distributed::all_gather(own, -1);
  gathered.push_back({whole.node(), own});
  return whole;
}

Tensor gathered_columns(const Tensor& x) {
  for (const Gathered& known : gathered)
    if (known.whole.lock() == x.node()) return known.own;
  return {};
}

}  // namespace varve::nn
