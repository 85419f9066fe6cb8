// Loops and branches: their bodies are compiled by the same backend, and lie with all they need in the unit's scratch.
#include <algorithm>

#include "backend/device.h"
#include "base/text.h"
#include "compiler/pipeline.h"

namespace varve::compiler {
namespace {

std::int64_t aligned_bytes(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + kAlign - 1) / kAlign * kAlign);
}

// What was said of a body, further in.
std::string indented(const std::string& title, const std::string& text) {
  std::string result = cat("  ", title, ":\n    ");
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "    ";
  }
  result.resize(result.find_last_not_of(' ') + 1);
  return result;
}

class RegionUnit {
 public:
  RegionUnit(const ir::NodePtr& node, const backend::Backend& backend, backend::Choices choices, std::string& explain)
      : node_(node), backend_(backend), choices_(choices), explain_(explain) {}

  Unit scan() {
    auto loop = std::make_shared<Loop>();
    loop->body = compiled(0, "body");
    loop->carries = static_cast<int>(node_->attrs.integer("carries"));
    loop->xs = static_cast<int>(node_->attrs.integer("xs"));
    loop->outs = static_cast<int>(node_->types.size()) - loop->carries;
    loop->steps = node_->attrs.integer("length");
    loop->reverse = node_->attrs.flag("reverse");
    std::int64_t at = 0;
    for (int c = 0; c < loop->carries; ++c)
      for (int twice = 0; twice < 2; ++twice) {
        loop->carry_at.push_back(at);
        at += carry_bytes(c);
      }
    loop->arena_at = at;
    Unit unit = claimed("loop", static_cast<std::size_t>(at) + loop->body->arena_bytes);
    unit.loop = std::move(loop);
    return unit;
  }

  Unit cond() {
    say_where();
    auto choice = std::make_shared<Choice>();
    choice->then = compiled(0, "then");
    choice->otherwise = compiled(1, "otherwise");
    Unit unit = claimed("cond", std::max(choice->then->arena_bytes, choice->otherwise->arena_bytes));
    unit.choice = std::move(choice);
    return unit;
  }

  Unit while_loop() {
    say_where();
    auto repeat = std::make_shared<Repeat>();
    repeat->condition = compiled(0, "condition");
    repeat->body = compiled(1, "body");
    repeat->carries = static_cast<int>(node_->attrs.integer("carries"));
    repeat->max_steps = node_->attrs.integer("max_steps");
    repeat->too_long =
        "while_loop: its condition still holds after {} steps, the max_steps that it was given. Give it "
        "more, or look at what should end it.";
    if (node_->attrs.has("kept"))
      for (const std::int64_t c : node_->attrs.ints("kept")) repeat->kept.push_back(static_cast<int>(c));
    std::int64_t at = 0;
    for (int c = 0; c < repeat->carries; ++c) {
      repeat->carry_at.push_back(at);
      at += carry_bytes(c);
    }
    repeat->predicate_at = at;
    repeat->arena_at = at + aligned_bytes(1);
    const std::size_t arena = std::max(repeat->condition->arena_bytes, repeat->body->arena_bytes);
    Unit unit = claimed("while", static_cast<std::size_t>(repeat->arena_at) + arena);
    unit.repeat = std::move(repeat);
    return unit;
  }

 private:
  std::shared_ptr<const Plan> compiled(std::size_t region, const char* title) {
    auto plan = compile_body(*node_->regions[region], backend_, choices_);
    explain_ += indented(title, plan->explain);
    return plan;
  }

  std::int64_t carry_bytes(int carry) const {
    return aligned_bytes(node_->types[static_cast<std::size_t>(carry)].bytes());
  }

  Unit claimed(const char* kernel, std::size_t scratch) const {
    Unit unit;
    unit.claim = backend::Claim::of(kernel, node_, {});
    unit.region_scratch = scratch;
    return unit;
  }

  // Where a device's work is recorded and started as a whole, a decision can be part of it or not.
  void say_where() {
    if (const backend::Device* device = backend_.device())
      explain_ +=
          device->decision_refusal().empty()
              ? "  decided on the device, inside the recorded step\n"
              : cat("  the recorded step is cut here, and the processor decides: ", device->decision_refusal(), "\n");
  }

  const ir::NodePtr& node_;
  const backend::Backend& backend_;
  const backend::Choices choices_;
  std::string& explain_;
};

}  // namespace

Unit region_unit(const ir::NodePtr& node, const backend::Backend& backend, backend::Choices choices,
                 std::string& explain) {
  RegionUnit unit(node, backend, choices, explain);
  if (node->is("cond")) return unit.cond();
  return node->is("while_loop") ? unit.while_loop() : unit.scan();
}

}  // namespace varve::compiler
