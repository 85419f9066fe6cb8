// What copies of a module share, and what stands between a call and the modules around it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/mask_flow.h"
#include "varve/nn/module.h"

namespace varve::nn {

struct Activation;

// Points to other States only, never to Module objects: those are copied and moved freely.
struct Module::State {
  struct Entry {
    std::string name;
    Variable variable;
    bool parameter = true;
    ForeignLayout foreign = {};
    bool carried = false;  // zeroed by reset_state()
    Cut cut = {};
    void divide(Split how) const;
  };
  struct Pattern {
    std::string text;
    bool trainable = false;
  };

  std::string name;  // what the last add() called it
  std::string kind;  // for messages about modules that have never been called
  std::vector<std::pair<std::string, std::shared_ptr<State>>> children;
  std::vector<Entry> variables;
  bool learns_size = false;
  std::atomic<bool> called = false;  // then its variables are made, and threads may call it side by side
  int rank = -1;                     // where it is placed; -1: where the module around it is
  Split split = Split::none;
  std::vector<Pattern> patterns;  // freeze() and unfreeze() in order: variables may be made after them

  // Of the first batch, or of build(), a sample's: what summarize() runs, and what later calls must be like.
  std::vector<Field> inputs = {}, outputs = {};
  struct Hooked {
    std::int64_t number;
    Hook hook;
  };
  struct GradientHooked {
    std::int64_t number;
    GradientHook hook;
  };
  std::shared_ptr<const std::vector<GradientHooked>> gradient_hooks;  // likewise
  std::shared_ptr<const std::vector<Hooked>> hooks;  // null: none; replaced as a whole, since calls may be on their way
  std::int64_t hooked = 0;                           // so far

  copies::Copier copier = nullptr;  // of the module that a Layer holds

  bool wide = false;  // built for f64: variables are f64, and so is what is computed unless a Precision says otherwise

  Entry* find(const std::string& variable);
  // It has made its variables.
  void first_call(const Module& module, const Tensors& x, const Tensors& y);
  void apply_patterns();
};

// The variables of a tree under their paths: a module's own, then its children's in order. Tied ones come several
// times.
using SeeEntry = std::function<void(const std::string& path, Module::State::Entry& entry)>;
void each_entry(Module::State& root, const SeeEntry& see);
std::string join_path(const std::string& outer, const std::string& name);

// One module call in progress on this thread.
class Frame {
 public:
  explicit Frame(const Module& module);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  const std::string& path() const { return path_; }
  int depth() const { return depth_; }
  static const Frame* current();  // null outside of module calls

  // Masks of values of the innermost call, while one is in progress.
  static bool knows_masks();  // whether there are any
  static void know(const Tensor& value, const Mask& mask);
  static Mask mask_of(const Tensor& value);  // Error that says what to override where it cannot be told
  static void give_masks();                  // calls inside it get the masks that it gives them, and no others

 private:
  std::vector<const KnownMasks*> tables() const;
  const Module& module_;
  KnownMasks masks_;
  bool gives_masks_ = false;
  std::string path_;
  int depth_;
  Scope scope_;
  Frame* outer_;
};

// While one is alive, module calls on this thread are made for their shapes only: what is carried from batch to batch
// is neither read nor assigned. With a seed it is build()'s, and makes variables.
class DryRun {
 public:
  DryRun() : DryRun(false, 0) {}
  explicit DryRun(std::int64_t seed) : DryRun(true, seed) {}
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  static bool active();
  static bool building();
  static std::int64_t seed();  // 0 outside of build()

 private:
  DryRun(bool building, std::int64_t seed);
  bool building_;
  std::int64_t seed_;
  const DryRun* outer_;
};

// While one is alive, module calls on this thread make and compute with f64. Those inside it inherit it.
class Wide {
 public:
  explicit Wide(bool wide);
  ~Wide();
  Wide(const Wide&) = delete;
  Wide& operator=(const Wide&) = delete;
  static bool current();

 private:
  bool saved_;
};

// What a split layer gives is whole, as all_gather makes it of the ranks' columns; a layer that needs this rank's
// columns alone finds what was gathered, and the message is never sent.
Tensor gather_columns(const Tensor& own);
// Undefined where x is not known to be made so.
Tensor gathered_columns(const Tensor& x);
Tensor own_columns(const Tensor& x);  // this rank's
// f(x), of this rank's columns alone where f treats each entry by itself.
Tensor of_entries(const Tensor& x, const Activation& f);
// Whether this variable is this rank's slice of a layer's; Error where ranks then see different samples.
bool is_divided(const std::string& where, const Variable& variable);

// Which tensors of this thread are flattened images [H, W, C]: PyTorch flattens [C, H, W], so the weights of a dense
// layer on top of one have their rows in another order there.
void note_flattened(const Tensor& flat, const Shape& image);
Shape flattened_image(const Tensor& x);                      // empty when x is not known to be one
void carry_flattened(const Tensor& from, const Tensor& to);  // `to` has the same columns

}  // namespace varve::nn
